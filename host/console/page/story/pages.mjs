/** Pages of the console, watched for faults. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { settled } from '../tests/browser.mjs';

/** What a page has done that it must not: errors, refusals of its own policy, requests to elsewhere. */
const faults = new WeakMap();

/**
 * Opens a page in a browser of its own (an own cookie jar).
 * @param {{ width?: number, theme?: string, expectErrors?: boolean }} options
 */
export async function openPage(browser, url, { width = 1280, height = width > 500 ? 800 : 740, theme = 'light', expectErrors = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, hasTouch: width < 500, timezoneId: 'UTC', locale: 'en-GB' });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  watch(page, new URL(url).origin, expectErrors);
  await page.addInitScript(() => {
    window.violations_ = [];
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => window.violations_.push(`${violatedDirective} ${blockedURI}`));
  });
  await page.goto(url);
  await page.getByRole('navigation', { name: 'Screens' }).or(page.getByRole('main')).first().waitFor();
  return page;
}

function watch(page, origin, expectErrors) {
  const found = [];
  faults.set(page, found);
  page.on('pageerror', ({ message }) => found.push(`error: ${message}`));
  page.on('console', (message) => {
    // A refused request is logged by the browser; stories that provoke one say so.
    if (message.type() === 'error' && !(expectErrors && message.text().startsWith('Failed to load resource'))) found.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) found.push(`loaded ${url}`);
  });
}

/** Closes a page, and fails if it had faults or its policy was violated. */
export async function closePage(page) {
  const violations = await page.evaluate(() => window.violations_).catch(() => []);
  await page.context().close();
  assert.deepEqual([...faults.get(page), ...violations], []);
}

/** Goes to a screen: `go(page, 'record')`. */
export async function go(page, hash) {
  await page.evaluate((hash) => (location.hash = `#/${hash}`), hash);
}

/** Keeps a screenshot if CONSOLE_SHOTS names a folder. */
export async function shot(page, name) {
  if (process.env.CONSOLE_SHOTS) await page.screenshot({ path: join(process.env.CONSOLE_SHOTS, `${name}.png`) });
}

/**
 * The card of the question about a tool, after its guard against stray keys. With `difference`, it shows what will change, which
 * arrives some time after the question, and which an answer must name.
 */
export async function card(page, tool, { difference = tool === 'edit_file' } = {}) {
  const found = page.getByRole('article', { name: new RegExp(`^May ${tool} run`) });
  await found.waitFor();
  if (difference) await found.getByRole('heading', { name: 'What will change' }).waitFor();
  // A new difference starts the guard again.
  await settled(page);
  await found.getByRole('button', { name: 'Yes, once' }).and(page.locator(':enabled')).waitFor();
  return found;
}
