import { Link } from 'wouter';
import { may, type Me } from './api';
import { Icon } from './icons';
import { settingsNav } from './pages/settings';
import { en } from './strings/en';

/** The list of settings, in the sidebar's place. */
export default function SettingsNav({ me, section }: { me: Me; section: string }) {
  return (
    <>
      <Link className="nav" href="/">
        <Icon name="left" />
        <span>{en.settings.back}</span>
      </Link>
      {settingsNav.map((g) => (
        <div key={g.title} className="snav">
          <h2>{g.title}</h2>
          {g.items
            .filter((i) => may(me, i.role))
            .map((i) => (
              <Link key={i.id} className="nav" href={`/settings/${i.id}`} aria-current={section === i.id ? 'page' : undefined}>
                <span>{i.label}</span>
              </Link>
            ))}
        </div>
      ))}
    </>
  );
}
