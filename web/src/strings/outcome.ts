import { times } from './en';

/** Texts of outcomes: what a run was to reach, and how a judge scored it. */
export const outcome = {
  tab: 'Outcome',
  status: { open: 'Working on it', reached: 'Reached', not_reached: 'Not reached', not_judged: 'Not judged' } as Record<string, string>,
  best: (score: string, least: string) => `Best score ${score}, ${least} is needed`,
  needed: (least: string) => `A score of ${least} is needed`,
  judgedAtMost: (n: number) => `A result is judged ${times(n, 'time', 'times')} at most`,
  by: (model: string) => `Judged by ${model}`,
  criterion: 'Criterion',
  weight: 'Weight',
  iteration: (n: number) => `Judged ${n}`,
  total: 'Total',
  reasons: 'What the judge says of the last result',
  none: 'Nothing was judged yet.',
  judged: (score: string, least: string) => `The judge gave ${score}; ${least} is needed`,
  feedback: 'What the agent was told',
  score: (score: string, reached: boolean) => `Score ${score}: ${reached ? 'reached' : 'not reached yet'}`,
};
