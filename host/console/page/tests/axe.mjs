/** axe-core on a page. */
import { readFileSync } from 'node:fs';
import { axePath } from './browser.mjs';

/** Returns what axe-core finds: `[{ id, help, nodes }]`. */
export async function violations(page) {
  // The policy of the page forbids scripts from elsewhere: axe is evaluated by the debugger.
  const source = readFileSync(axePath, 'utf8');
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: source });
  const { result } = await session.send('Runtime.evaluate', {
    expression: `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => JSON.stringify(violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => html.slice(0, 160) + ' ' + failureSummary.slice(0, 300)) }))))`,
    awaitPromise: true,
    returnByValue: true,
  });
  return JSON.parse(result.value);
}
