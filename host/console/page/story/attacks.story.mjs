/** Attacks in the browser of a person who is logged in, and with what agents send. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { HOSTILE } from '../fixture/hostile.mjs';
import { eventually } from '../tests/browser.mjs';
import { Workspace } from './kit.mjs';
import { card, closePage, go, openPage, shot } from './pages.mjs';

const SETTINGS = 'approvals:\n  unattended: wait\ntools:\n  edit_file:\n    approval: ask\n  exec:\n    approval: allow\n';

/** A site of an attacker on the same machine: another origin, but the same site as the console. */
async function openSite() {
  const server = createServer((request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>evil</title><body>evil'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  return { urls: [`http://127.0.0.1:${port}/`, `http://localhost:${port}/`], stop: () => server.close() || server.closeAllConnections() };
}

/** Runs in a page of the attacker, who has even learned the secret path. Resolves with what each attempt achieved. */
async function attack({ base, id, fingerprint, preview }) {
  const read = async (promise) => {
    try {
      const answer = await promise;
      return answer.type === 'opaque' ? 'opaque' : `${answer.status} ${(await answer.text()).slice(0, 80)}`;
    } catch (error) {
      return error.name;
    }
  };
  const settled = (element, url) => new Promise((resolve) => {
    const name = element.localName;
    element.onload = () => resolve(`${name} loaded`);
    element.onerror = () => resolve(`${name} refused`);
    element.src = url;
    document.body.append(element);
  });
  const answer = JSON.stringify({ fingerprint, preview, answer: 'once' });
  const post = (path, body, type, mode) => read(fetch(base + path, { method: 'POST', mode, credentials: 'include', headers: { 'Content-Type': type }, body }));
  const found = {};
  found.read = await read(fetch(`${base}api/state`, { credentials: 'include' }));
  found.header = await read(fetch(`${base}api/state`, { credentials: 'include', headers: { 'X-Mimir-Console': '1' } }));
  found.blind = await read(fetch(`${base}api/state`, { credentials: 'include', mode: 'no-cors' }));
  found.json = await post(`api/questions/${id}/answer`, answer, 'application/json', 'cors');
  found.text = await post(`api/questions/${id}/answer`, answer, 'text/plain', 'no-cors');
  found.stop = await post('api/stop', '{}', 'text/plain', 'no-cors');
  found.form = await post('api/stop', 'a=b', 'application/x-www-form-urlencoded', 'no-cors');
  found.beacon = navigator.sendBeacon(`${base}api/stop`, '{}') && 'sent';
  found.events = await new Promise((resolve) => {
    const source = new EventSource(`${base}api/events`, { withCredentials: true });
    source.onmessage = source.onopen = () => resolve('opened');
    source.onerror = () => resolve('refused');
    source.addEventListener('ping', () => resolve('message'));
  });
  found.script = await settled(document.createElement('script'), `${base}api/state`);
  found.page = await settled(document.createElement('script'), `${base}console.js`);
  found.image = await settled(document.createElement('img'), `${base}api/state`);
  return found;
}

async function askOne(workspace, agent, page) {
  workspace.write('notes.txt', 'one two\n');
  const reply = agent.call('edit_file', { path: 'notes.txt', pattern: 'one', replacement: '1' });
  await go(page, 'questions');
  await (await card(page, 'edit_file')).getByRole('heading', { name: 'What will change' }).waitFor();
  const [{ id, card: { fingerprint }, preview }] = (await page.evaluate(() => fetch('api/questions').then((answer) => answer.json()))).questions;
  return { reply, id, fingerprint, preview: preview.digest };
}

export const stories = {
  async 'a page of another origin reads nothing and changes nothing'(browser) {
    const workspace = new Workspace(SETTINGS);
    const site = await openSite();
    try {
      const [{ url, base }, agent] = await Promise.all([workspace.console(), workspace.agent()]);
      const page = await openPage(browser, url);
      const { reply, ...known } = await askOne(workspace, agent, page);
      for (const from of site.urls) {
        const evil = await page.context().newPage();
        await evil.goto(from);
        const found = await evil.evaluate(attack, { base, ...known });
        console.log(`      from ${new URL(from).hostname}: ${Object.entries(found).map(([name, value]) => `${name} ${value}`).join(', ')}`);
        for (const name of ['read', 'header', 'json']) assert.equal(found[name], 'TypeError', name);
        assert.equal(found.events, 'refused');
        for (const name of ['script', 'page', 'image']) assert.match(found[name], /refused$/, name);

        // A frame shows nothing to click on.
        await evil.evaluate((base) => {
          const frame = document.createElement('iframe');
          frame.src = base;
          document.body.append(frame);
        }, base);
        await eventually(() => assert.ok(evil.frames().length === 2 && evil.frames()[1].url() !== 'about:blank'));
        await evil.waitForTimeout(300);
        const [, frame] = evil.frames();
        assert.equal(frame.url().startsWith('chrome-error:') || (await frame.locator('body').innerText()) === '', true, `the frame shows ${frame.url()}`);

        // A window that it opens is not its own any more.
        const [opened] = await Promise.all([
          page.context().waitForEvent('page'),
          evil.evaluate((base) => void (window.opened_ = window.open(base)), base),
        ]);
        await opened.waitForLoadState();
        const reach = () => evil.evaluate(() => {
          try {
            return window.opened_.closed ? 'closed' : window.opened_.document.title;
          } catch (error) {
            return error.name;
          }
        });
        // It begins with an empty document of the attacker's origin.
        await eventually(async () => assert.match(await reach(), /^(closed|SecurityError)$/));
        assert.equal(await opened.evaluate(() => window.opener), null);
        await opened.close();

        // A form that navigates there.
        await evil.evaluate((base) => {
          const form = document.createElement('form');
          Object.assign(form, { method: 'POST', action: `${base}api/stop`, enctype: 'text/plain' });
          form.append(Object.assign(document.createElement('input'), { name: '{"reason":"', value: '"}' }));
          document.body.append(form);
          form.submit();
        }, base);
        await evil.waitForURL(`${base}api/stop`);
        assert.match(await evil.locator('body').innerText(), /error/);
        await evil.close();
      }
      const state = await page.evaluate(() => fetch('api/state').then((answer) => answer.json()));
      assert.equal(state.stop, null);
      const open = await page.evaluate(() => fetch('api/questions').then((answer) => answer.json()));
      assert.equal(open.questions.length, 1);
      await (await card(page, 'edit_file')).getByRole('button', { name: 'Yes, once' }).click();
      assert.equal((await reply).isError ?? false, false);
      await closePage(page);
    } finally {
      site.stop();
      await workspace.close();
    }
  },

  async 'a link works once, and scripts cannot read the cookie'(browser) {
    const workspace = new Workspace('');
    try {
      const { url, base } = await workspace.console();
      const page = await openPage(browser, url);
      await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
      assert.equal(new URL(page.url()).hash.includes('key'), false);
      assert.equal(await page.evaluate(() => document.cookie), '');
      assert.deepEqual(await page.evaluate(() => [Object.keys(localStorage), Object.keys(sessionStorage)].flat().filter((key) => /key|secret|token/i.test(key))), []);
      const cookies = await page.context().cookies();
      assert.deepEqual(cookies.map(({ httpOnly, sameSite, path }) => [httpOnly, sameSite, path]), [[true, 'Strict', new URL(base).pathname]]);

      const thief = await openPage(browser, url, { expectErrors: true });
      await thief.getByRole('heading', { name: 'Open the console again' }).waitFor();
      await shot(thief, 'story-used-link');
      await closePage(thief);
      // The first browser is not logged out by it.
      await page.reload();
      await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
      // The name of another site that resolves to this machine.
      const rebound = await page.context().newPage();
      const answer = await rebound.goto(base.replace('127.0.0.1', 'rebound.localhost')).catch((error) => error);
      assert.ok(answer instanceof Error || answer.status() >= 400, 'a name that points to this machine was served');
      await rebound.close();
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },

  async 'texts of strangers stay text'(browser) {
    const workspace = new Workspace(SETTINGS);
    try {
      workspace.write('notes.txt', 'one\n');
      for (const [name, text] of Object.entries(HOSTILE)) workspace.write(`hostile/${name}.txt`, text);
      const [{ url }, agent] = await Promise.all([workspace.console(), workspace.agent({ name: HOSTILE.markup })]);
      const page = await openPage(browser, url);
      // The title has the name of the workspace once the page knows it.
      await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
      const title = await page.title();
      for (const text of Object.values(HOSTILE)) await agent.call('read_file', { path: text }).catch(() => {});
      await agent.call('exec', { command: 'cat hostile/*.txt' });
      const huge = await agent.call('write_file', { path: 'huge.txt', content: 'x'.repeat(10 << 20) }).catch((error) => ({ text: error.message }));
      console.log(`      10 MiB of arguments: ${huge.text.slice(0, 100)}`);
      const questions = [
        agent.call('edit_file', { path: 'notes.txt', pattern: 'one', replacement: Object.values(HOSTILE).join('\n') }),
        agent.call('edit_file', { path: `${HOSTILE.bidi}${HOSTILE.markup}`, pattern: HOSTILE.imitation, replacement: HOSTILE.ansi }),
      ];
      const outcomes = questions.map((question) => question.catch(() => {}));
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        await go(page, 'live');
        await page.getByRole('treeitem').filter({ hasText: 'exec' }).first().click();
        await page.getByRole('region', { name: 'Call', exact: true }).waitFor();
        await check(page, title, width);
        await shot(page, `story-hostile-live-${width}`);
        await go(page, 'questions');
        await card(page, 'edit_file', { difference: false });
        await check(page, title, width);
        await shot(page, `story-hostile-question-${width}`);
        await go(page, 'record');
        await page.getByRole('listbox', { name: /^Record/ }).getByRole('option').first().waitFor();
        await check(page, title, width);
        await shot(page, `story-hostile-record-${width}`);
      }
      agent.child.kill();
      await Promise.all(outcomes);
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },
};

/** Fails if a text has become markup, is invisible, or changes the direction of the page. */
async function check(page, title, width) {
  await page.waitForTimeout(200);
  const found = await page.evaluate(() => ({
    elements: [...document.querySelectorAll('main img, main script, main iframe, main [onerror], main [onmouseover], a[href^="javascript" i]')].length,
    text: document.body.innerText,
    wide: document.documentElement.scrollWidth,
    count: document.querySelectorAll('*').length,
  }));
  assert.equal(found.elements, 0);
  assert.match(await page.title(), new RegExp(`^(\\(\\d+\\) )?${title.replace(/^\(\d+\) /, '')}$`));
  const invisible = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u.exec(found.text);
  assert.equal(invisible, null, `an invisible character: ${JSON.stringify(invisible?.[0])} at ${JSON.stringify(found.text.slice(invisible?.index - 40, invisible?.index + 40))}`);
  assert.ok(found.wide <= width, `the page is ${found.wide} px wide`);
  assert.ok(found.count < 3_000, `${found.count} elements`);
}
