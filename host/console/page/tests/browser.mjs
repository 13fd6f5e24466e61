/** The browser and the fixture for the tests. */
import { createRequire } from 'node:module';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startFixture } from '../fixture/server.mjs';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
const require = createRequire(join(process.env.CONSOLE_PACKAGES ?? here, 'package.json'));
const { chromium } = require('playwright-core');

export const axePath = require.resolve('axe-core/axe.min.js');

const PROGRAMS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/lib/chromium/chromium', '/usr/bin/google-chrome'];

/** Starts the browser. */
export function launch() {
  const executablePath = PROGRAMS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error('Chromium is not installed: apt-get install chromium, or name it in CHROMIUM');
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/**
 * Opens a page on its own fixture, runs `story`, and fails if the page has failed or has loaded anything from elsewhere.
 * @param {import('playwright-core').Browser} browser
 */
export async function withPage(browser, { width = 1280, height = width > 500 ? 800 : 740, theme = 'light', hash = '#/live', fixture: options = {}, expectErrors = false, permissions = [] }, story) {
  const fixture = await startFixture(options);
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, hasTouch: width < 500, permissions, timezoneId: 'UTC', locale: 'en-GB' });
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // A refused request is logged by the browser; stories that provoke one say so.
    if (message.type() === 'error' && !(expectErrors && message.text().startsWith('Failed to load resource'))) faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(fixture.url) && !request.url().startsWith('data:')) faults.push(`loaded ${request.url()}`);
  });
  try {
    await page.goto(fixture.url + hash);
    await page.getByRole('navigation', { name: 'Screens' }).or(page.getByRole('main')).first().waitFor();
    await story(page, fixture, context);
    if (faults.length) throw new Error(faults.join('\n'));
  } catch (error) {
    const folder = process.env.CONSOLE_SHOTS;
    if (folder) await page.screenshot({ path: join(folder, `failed-${Date.now()}.png`) }).catch(() => {});
    throw error;
  } finally {
    // A request that a handler of the test is answering would fail when the page closes, outside of any test.
    for (const one of [page, context]) await one.unrouteAll({ behavior: 'ignoreErrors' }).catch(() => {});
    await context.close();
    fixture.stop();
  }
}

/** Waits until the page has the lists and the stream of events: what happens on the fixture before may be part of the lists. */
export const connected = (page) => page.getByRole('status').filter({ hasText: /^Connected$/ }).waitFor();

/** Waits until the page has run the effects of what it shows. */
export const settled = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve)))));

/** Waits until the shown card takes answers, also by keys: it takes none in its first half second. */
export async function answerable(page) {
  await page.getByRole('group', { name: 'Answer', exact: true }).getByRole('button', { name: 'No…' }).and(page.locator(':enabled')).waitFor();
}

/** Returns when the page has painted first, in milliseconds. */
export const firstPaint = (page) => eventually(() => page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));

/** Waits until `check` returns without an error. */
export async function eventually(check, timeout = 30_000) {
  const end = Date.now() + timeout;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
  }
}
