/** A runaway agent: one call is cancelled, then everything is stopped. */
import assert from 'node:assert/strict';
import { eventually } from '../tests/browser.mjs';
import { Workspace } from './kit.mjs';
import { closePage, go, openPage, shot } from './pages.mjs';

export const stories = {
  async 'a runaway agent is stopped'(browser) {
    const workspace = new Workspace('tools:\n  exec:\n    approval: allow\n');
    try {
      workspace.write('notes.txt', 'alpha\n');
      const [{ url }, agent] = await Promise.all([workspace.console(), workspace.agent({ name: 'runaway' })]);
      const page = await openPage(browser, url);
      let isOver = false;
      const results = [];
      // It repeats a call without end, also when it is refused.
      const loop = (async () => {
        while (!isOver) {
          results.push(await agent.call('read_file', { path: 'notes.txt' }));
          if (results.at(-1).isError) await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })();
      // Repeats its output: a console drops reports of a flood, and says so.
      const sleeping = agent.call('exec', { command: 'for n in $(seq 600); do echo begun; sleep 1; done', timeout: 900 });

      const row = page.getByRole('treeitem').filter({ hasText: 'seq 600' });
      await page.getByRole('button', { name: /^Active/ }).click();
      await row.click();
      const call = page.getByRole('region', { name: 'Call', exact: true });
      await call.getByRole('log').getByText('begun').first().waitFor();
      await call.getByText('runaway').first().waitFor();
      await shot(page, 'story-runaway');
      await call.getByRole('button', { name: 'Cancel call' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel call' }).click();
      const cancelled = await sleeping;
      assert.equal(cancelled.isError, true);
      assert.match(cancelled.text, /cancel/i);
      console.log(`      the cancelled agent reads: ${cancelled.text.slice(0, 160)}`);
      await call.getByText(/CANCELLED/).first().waitFor();

      await page.getByRole('button', { name: 'Stop all' }).click();
      const dialog = page.getByRole('dialog', { name: 'Stop all calls?' });
      await dialog.getByLabel(/^Reason/).fill('it repeats itself');
      await dialog.getByRole('button', { name: 'Stop all calls' }).click();
      await page.getByRole('alert', { name: 'Stopped' }).getByText('it repeats itself').waitFor();
      await shot(page, 'story-stopped');
      const before = results.length;
      await eventually(() => assert.ok(results.length > before + 3 && results.slice(-3).every(({ isError }) => isError)));
      console.log(`      the stopped agent reads: ${results.at(-1).text.slice(0, 160)}`);
      // Others of the workspace are refused, too.
      assert.throws(() => workspace.mimir('call', 'read_file', 'path=notes.txt'));

      await page.getByRole('button', { name: 'Start again…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Start again' }).click();
      await page.getByRole('alert', { name: 'Stopped' }).waitFor({ state: 'hidden' });
      await eventually(() => assert.equal(results.at(-1).isError ?? false, false));
      isOver = true;
      await loop;

      // Who stopped and started it is on record.
      await go(page, 'record');
      const record = page.getByRole('listbox', { name: /^Record/ });
      await page.getByRole('searchbox', { name: 'Search the record' }).fill('it repeats itself');
      await record.getByRole('option', { name: /it repeats itself/ }).first().waitFor();
      await shot(page, 'story-stop-record');
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },

  async 'a stop by the terminal shows on the page'(browser) {
    const workspace = new Workspace('');
    try {
      const { url } = await workspace.console();
      const page = await openPage(browser, url, { width: 360 });
      workspace.mimir('stop', '--all', '--reason', 'lunch');
      await page.getByRole('alert', { name: 'Stopped' }).getByText('lunch').waitFor();
      await shot(page, 'story-stopped-360');
      workspace.mimir('start', '--yes');
      await page.getByRole('alert', { name: 'Stopped' }).waitFor({ state: 'hidden' });
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },

  async 'one of three agents is stopped, and lets the others work'(browser) {
    const workspace = new Workspace('approvals:\n  unattended: wait\ntools:\n  exec:\n    approval: allow\n');
    try {
      workspace.write('notes.txt', 'alpha\n');
      const { url } = await workspace.console();
      const [wild, second, third] = await Promise.all(['wild', 'second', 'third'].map((name) => workspace.agent({ name })));
      const page = await openPage(browser, url);
      const sleeping = wild.call('exec', { command: 'echo begun; sleep 600', timeout: 900 });
      const read = (agent) => agent.call('read_file', { path: 'notes.txt' });
      const row = page.getByRole('treeitem').filter({ hasText: 'sleep 600' });
      await row.waitFor();
      // A flood of the others does not push it away.
      for (let index = 0; index < 40; index++) await Promise.all([read(second), read(third)]);
      await row.getByRole('button', { name: /^Stop agent wild/ }).click();
      const dialog = page.getByRole('dialog', { name: 'Stop this agent?' });
      await dialog.getByLabel(/^Reason/).fill('it goes in circles');
      await dialog.getByRole('button', { name: 'Stop agent' }).click();
      const strip = page.getByRole('region', { name: 'Stopped agents' });
      await strip.getByText('it goes in circles').waitFor();
      await shot(page, 'story-stopped-agent');
      const ended = await sleeping;
      assert.match(ended.text, /was stopped by .*may have taken effect: it goes in circles/);
      const refused = await read(wild);
      assert.equal(refused.isError, true);
      assert.match(refused.text, /all calls of this agent are stopped by/);
      console.log(`      the stopped agent reads: ${refused.text.slice(0, 160)}`);
      for (const other of [second, third]) assert.equal((await read(other)).isError ?? false, false);
      await strip.getByRole('button', { name: 'Let it work again' }).click();
      await strip.waitFor({ state: 'hidden' });
      await eventually(async () => assert.equal((await read(wild)).isError ?? false, false));
      await go(page, 'record');
      await page.getByText(/all calls of the session .* are refused/).first().waitFor();
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },
};
