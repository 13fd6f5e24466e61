/** The beginning of a long list, and a button that shows all of it. */
import { html, useState } from '../base/html.js';
import { count } from '../base/format.js';

/**
 * Returns the rows to show, and the button for the others.
 * @param {unknown[]} rows
 * @param {{ first?: number, total?: number, what: string }} options `total` is larger if the server has cut the list.
 */
export function useSome(rows, { first = 10, total = rows.length, what }) {
  const [isAll, setAll] = useState(false);
  const hidden = rows.length - first;
  const cut = total > rows.length ? html` <span class="faint small">${count(rows.length)} of ${count(total)} ${what} are listed.</span>` : null;
  const button = hidden > 0 ? html`<button class="link" aria-expanded=${isAll} onClick=${() => setAll(!isAll)}>${isAll ? `Show the first ${count(first)} ${what}` : `Show all ${count(rows.length)} ${what}`}</button>` : null;
  return [isAll || hidden <= 0 ? rows : rows.slice(0, first), button || cut ? html`<p class="more">${button}${cut}</p>` : null];
}
