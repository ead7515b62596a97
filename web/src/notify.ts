import { en } from './strings/en';

const key = 'agentd.notify';

export function notificationsOn(): boolean {
  try {
    return typeof Notification !== 'undefined' && Notification.permission === 'granted' && localStorage.getItem(key) === 'on';
  } catch {
    return false;
  }
}

/** Asks for permission only when a person switches them on. */
export async function setNotifications(on: boolean): Promise<boolean> {
  if (on && typeof Notification !== 'undefined' && Notification.permission !== 'granted') await Notification.requestPermission();
  const granted = typeof Notification !== 'undefined' && Notification.permission === 'granted';
  try {
    localStorage.setItem(key, on && granted ? 'on' : 'off');
  } catch {
    return false;
  }
  return on && granted;
}

let before = -1;

/** Tells of more that waits, without arguments; nothing while somebody looks at the page. */
export function noticeWaiting(n: number): void {
  if (before >= 0 && n > before && notificationsOn() && document.visibilityState === 'hidden') {
    new Notification('agentd', { body: en.inbox.notification(n), tag: 'agentd-inbox' });
  }
  before = n;
}
