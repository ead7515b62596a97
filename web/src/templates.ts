import type { IconName } from './icons';
import { en } from './strings/en';

const s = en.templates;

export interface Template {
  id: string;
  title: string;
  text: string;
  icon: IconName;
  body: { name: string; [field: string]: unknown };
  /** Messages to begin with. */
  examples: string[];
}

/** Agents to begin with. All of them work offline, with builtin/echo. */
export const templates: Template[] = [
  {
    id: 'echo',
    ...s.echo,
    icon: 'bolt',
    body: { name: 'Echo', description: s.echo.text, built_in_tools: ['calculator', 'current_time'] },
    examples: ['What is 6*7?', 'think: one thing after another\nslowly: This answer comes word by word.', 'What time is it?'],
  },
  {
    id: 'assistant',
    ...s.assistant,
    icon: 'chat',
    body: { name: 'Assistant', description: s.assistant.text, prompts: { system: s.assistant.prompt }, built_in_tools: ['calculator', 'current_time', 'ask_user'] },
    examples: [],
  },
  {
    id: 'approver',
    ...s.approver,
    icon: 's-waiting',
    body: {
      name: 'Careful',
      description: s.approver.text,
      prompts: { system: s.approver.prompt },
      built_in_tools: ['calculator', 'ask_user', 'send_notification'],
      approval_required_tools: ['calculator', 'send_notification'],
    },
    examples: ['call calculator {"expression": "180*1.25"}', 'call ask_user {"question": "Which depot is closed on Tuesday?"}'],
  },
  {
    id: 'researcher',
    ...s.researcher,
    icon: 'search',
    body: { name: 'Researcher', description: s.researcher.text, prompts: { system: s.researcher.prompt }, built_in_tools: ['web_search', 'http_fetch', 'write_file', 'read_file', 'list_files'], resource_limits: { max_steps: 60 } },
    examples: [],
  },
  {
    id: 'librarian',
    ...s.librarian,
    icon: 'book',
    body: { name: 'Librarian', description: s.librarian.text, prompts: { system: s.librarian.prompt }, built_in_tools: ['knowledge_search', 'memory_search', 'memory_save'], memory: { enabled: true } },
    examples: [],
  },
];
