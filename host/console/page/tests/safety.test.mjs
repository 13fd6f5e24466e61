/** Login, lost connections, and what the browser's policy forbids. */
import assert from 'node:assert/strict';
import { connected, eventually, withPage } from './browser.mjs';

export const tests = {
  async 'the key leaves the address and logs in'(browser) {
    await withPage(browser, { hash: '#key=fixture-key', fixture: { login: true } }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      assert.equal(new URL(page.url()).hash, '#/live');
      assert.deepEqual(fixture.posts[0], { path: 'login', body: { key: 'fixture-key' } });
      assert.deepEqual(await page.evaluate(() => Object.keys(localStorage)), []);
    });
  },

  async 'a used link says how to open the console again'(browser) {
    await withPage(browser, { hash: '#key=wrong', fixture: { login: true }, expectErrors: true }, async (page) => {
      await page.getByRole('heading', { name: 'Open the console again' }).waitFor();
      assert.equal(new URL(page.url()).hash, '#/live');
    });
  },

  async 'a session that ends shows the same'(browser) {
    await withPage(browser, { fixture: { login: true }, hash: '#key=fixture-key', expectErrors: true }, async (page) => {
      await page.getByRole('treeitem').first().waitFor();
      await page.evaluate(() => fetch('api/logout', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Mimir-Console': '1' }, body: '{}' }));
      await page.keyboard.press('3');
      await page.getByRole('heading', { name: 'Open the console again' }).waitFor();
    });
  },

  async 'a person logs out'(browser) {
    await withPage(browser, { fixture: { login: true }, hash: '#key=fixture-key', expectErrors: true }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      await page.keyboard.press('?');
      await page.getByRole('button', { name: 'Log out of this browser' }).click();
      await page.getByRole('heading', { name: 'Open the console again' }).waitFor();
      assert.equal(fixture.posts.at(-1).path, 'logout');
    });
  },

  async 'a lost connection is said, and made good'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] }, expectErrors: true }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      fixture.drop();
      await page.getByText('Reconnecting').waitFor();
      fixture.ask('exec');
      await connected(page);
      await page.getByRole('link', { name: 'Questions 1 open' }).waitFor();
    });
  },

  async 'a console that is gone is said, with the age of the data'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] }, expectErrors: true }, async (page, fixture) => {
      await connected(page);
      await page.route('**/api/**', (route) => route.abort());
      fixture.drop();
      await page.getByRole('alert', { name: 'Console gone' }).getByText(/is from before \d{4}-/).waitFor({ timeout: 60_000 });
      await page.keyboard.press('!');
      await page.getByRole('dialog').getByText('mimir stop --all').waitFor();
      await page.keyboard.press('Escape');
      await page.unroute('**/api/**');
      await page.getByRole('alert', { name: 'Console gone' }).waitFor({ state: 'hidden' });
    });
  },

  async 'output is not shown twice after a reconnect'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] }, expectErrors: true }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      const id = 'overlap';
      fixture.publish([{ kind: 'started', id, at: new Date().toISOString(), process: { name: 'mimir', pid: 1 }, session: 's', tool: 'overlap', source: 'built-in', arguments: '{}' }]);
      const lines = [1, 2, 3].map((line) => ({ kind: 'output', id, stream: 'stdout', text: `line ${line}` }));
      const effect = { kind: 'effect', id, at: new Date().toISOString(), effect: 'file', subject: 'once.txt', decision: 'allow' };
      fixture.publish([lines[0], effect]);
      await page.getByRole('treeitem').filter({ hasText: 'overlap' }).click();
      await page.getByRole('log').getByText('line 1').waitFor();
      await page.reload();
      fixture.send('call', [lines[0], effect]);
      fixture.publish([lines[1], lines[2]]);
      await page.getByRole('log').getByText('line 3').waitFor();
      await page.waitForTimeout(200);
      assert.equal(await page.getByRole('log').innerText().then((text) => text.trim()), 'line 1\nline 2\nline 3');
      assert.equal(await page.getByText('once.txt').count(), 1);
    });
  },

  async 'the browser refuses code that writes HTML'(browser) {
    await withPage(browser, { hash: '#/live', expectErrors: true }, async (page) => {
      const wrote = await page.evaluate(() => {
        try {
          document.getElementById('app').innerHTML = '<b>x</b>';
          return 'wrote';
        } catch (error) {
          return error.name;
        }
      });
      assert.equal(wrote, 'TypeError');
      const ran = await page.evaluate(() => {
        const script = document.createElement('script');
        try {
          script.text = 'document.title = "owned"';
        } catch (error) {
          return error.name;
        }
        document.body.append(script);
        return document.title;
      });
      assert.equal(ran, 'TypeError');
    }).catch((error) => {
      // The browser reports each refusal.
      if (!/Trusted(HTML|Script)|Content Security Policy/.test(error.message)) throw error;
    });
  },

  async 'each change is posted as JSON with the header'(browser) {
    await withPage(browser, { hash: '#/tools' }, async (page) => {
      const sent = page.waitForRequest((request) => request.method() === 'POST');
      await page.getByRole('switch', { name: 'browser is on' }).click();
      const headers = await (await sent).allHeaders();
      assert.equal(headers['x-mimir-console'], '1');
      assert.equal(headers['content-type'], 'application/json');
      await eventually(async () => assert.equal(await page.getByRole('switch', { name: 'browser is on' }).getAttribute('aria-checked'), 'true'));
    });
  },
};
