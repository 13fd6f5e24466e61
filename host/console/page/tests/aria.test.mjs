/**
 * The roles and names of every screen and dialog, as a screen reader has them. UPDATE=1 writes the snapshots again, that of
 * one screen with SCREEN=NAME; look at the difference before committing it.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connected, eventually, withPage } from './browser.mjs';
import { DIALOGS, SCREENS } from './screens.mjs';

const folder = join(dirname(fileURLToPath(import.meta.url)), 'snapshots');
const ROWS = 6;

/** Replaces what differs from run to run, and shortens long lists. */
function stable(snapshot) {
  let rows = 0;
  return snapshot
    .replace(/\d{4}-\d\d-\d\d/g, 'DATE')
    .replace(/\b\d\d-\d\d (?=TIME|\d\d:)/g, 'DAY ')
    .replace(/\b\d\d:\d\d(:\d\d)?\b/g, 'TIME')
    .replace(/just now|\d+ (s|min|h|days) ago/g, 'AGO')
    .replace(/\b(\d+ min \d+|[\d.]+) (s|ms|min)\b/g, 'DURATION')
    .replace(/(?<=DATET)\d\d%3A\d\d%3A[\d.]+/g, 'TIME')
    .replace(/\b0?1a2295[\w-]+/g, 'CALL')
    .split('\n')
    .filter((line) => !/^\s*- (treeitem|option) /.test(line) || ++rows <= ROWS)
    .map((line) => line.slice(0, 300))
    .join('\n');
}

export const tests = {
  async 'screens and dialogs'(browser) {
    mkdirSync(folder, { recursive: true });
    const differing = [];
    for (const { name, hash, act, wait = 150, questions } of [...SCREENS, ...DIALOGS].filter(({ name }) => !process.env.SCREEN || name === process.env.SCREEN)) {
      await withPage(browser, { hash, fixture: questions ? { questions } : {} }, async (page) => {
        await connected(page);
        await page.waitForTimeout(350);
        await act?.(page);
        await page.waitForTimeout(wait + 250);
        const dialog = page.getByRole('dialog');
        const look = async () => {
          const part = (await dialog.count()) ? dialog : page.locator(name === 'live' ? '#app' : 'main');
          return `${stable(await part.ariaSnapshot())}\n`;
        };
        const file = join(folder, `${name}.yml`);
        if (process.env.UPDATE || !existsSync(file)) return writeFileSync(file, await look());
        const expected = readFileSync(file, 'utf8');
        let snapshot;
        // What the screen loads may take longer than the wait.
        await eventually(async () => assert.equal((snapshot = await look()), expected), 10_000).catch(() => differing.push(difference(name, expected, snapshot ?? '')));
      });
    }
    assert.deepEqual(differing, [], differing.join('\n'));
  },
};

function difference(name, expected, actual) {
  const [old, current] = [expected.split('\n'), actual.split('\n')];
  const index = old.findIndex((line, at) => line !== current[at]);
  return `${name}, line ${index + 1}: expected ${old[index]}, is ${current[index]}`;
}
