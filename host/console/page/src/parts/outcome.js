/** The outcome of a recorded call. */
import { html } from '../base/html.js';
import { Tag } from './controls.js';

/** All outcomes, in the order of the help: [name, tone, what people look for]. */
export const OUTCOMES = [
  ['ok', 'good', 'ok'],
  ['refused', 'bad', 'refused: a rule or a person said no'],
  ['stopped', 'faint', 'stopped while it ran'],
  ['limited', 'warn', 'limited: a limit was reached'],
  ['unavailable', 'warn', 'unavailable'],
  ['failed', 'bad', 'failed'],
];

/** The badge of an outcome. */
export function Outcome({ outcome }) {
  const known = OUTCOMES.find(([name]) => name === outcome);
  return known ? html`<${Tag} tone=${known[1]}>${known[0]}<//>` : null;
}
