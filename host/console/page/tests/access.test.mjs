/** axe-core finds nothing on any screen or dialog, wide and narrow, light and dark; and nothing is wider than the window. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { violations } from './axe.mjs';
import { connected, withPage } from './browser.mjs';
import { DIALOGS, SCREENS } from './screens.mjs';

async function checkWidth(page, width) {
  const [document, overflowing] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    [...document.querySelectorAll('main, header, nav, .toolbar, .answers, .detail-body, .page-scroll, dialog[open]')].filter((element) => element.scrollWidth > element.clientWidth + 1).map((element) => `${element.className || element.tagName} ${element.scrollWidth} > ${element.clientWidth}`),
  ]);
  assert.ok(document <= width, `the page is ${document} px wide`);
  assert.deepEqual(overflowing, []);
}

export const tests = {};
/** Each width and each theme; all combinations with ALL=1. */
const VIEWS = [
  { width: 1280, theme: 'light' },
  { width: 360, theme: 'dark' },
  ...(process.env.ALL ? [{ width: 1280, theme: 'dark' }, { width: 360, theme: 'light' }] : []),
];

for (const { width, theme } of VIEWS) {
  tests[`screens at ${width} px, ${theme}`] = async (browser) => {
    const faults = [];
    for (const { name, hash, act, wait = 150, questions, wide } of [...SCREENS, ...DIALOGS]) {
      if (wide && width < 500) continue;
      await withPage(browser, { width, theme, hash, fixture: questions ? { questions } : {} }, async (page) => {
        try {
          await connected(page);
          await page.waitForTimeout(350);
          await act?.(page);
          await page.waitForTimeout(wait + 250);
          await page.locator('.loading').first().waitFor({ state: 'hidden' });
          const { CONSOLE_SHOTS } = process.env;
          if (CONSOLE_SHOTS) await page.screenshot({ path: join(CONSOLE_SHOTS, `${name}-${width}-${theme}.png`) });
          await checkWidth(page, width);
          for (const { id, nodes } of await violations(page)) faults.push(`${name}: ${id}\n    ${nodes.join('\n    ')}`);
        } catch (error) {
          faults.push(`${name}: ${error.message}`);
        }
      });
    }
    if (faults.length) throw new Error(faults.join('\n'));
  };
}
