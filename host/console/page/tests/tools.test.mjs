/** Changes that can be undone, and the logs of servers. */
import assert from 'node:assert/strict';
import { servers, undo } from '../fixture/lists.mjs';
import { eventually, withPage } from './browser.mjs';

export const tests = {
  async 'a change of a file that has changed since is not offered to be undone'(browser) {
    // Other tests undo them.
    for (const one of undo.slice(0, 2)) one.undone = undefined;
    await withPage(browser, { hash: '#/tools/undo/undo-1', fixture: { questions: [] } }, async (page) => {
      await page.getByRole('button', { name: 'Undo…' }).waitFor();
      assert.equal(await page.getByText('Files have changed since').count(), 0);
      await page.goto(page.url().replace('undo-1', 'undo-2'));
      await page.getByText('mimir undo undo-2 --force').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Undo…' }).count(), 0);
      assert.equal(await page.getByLabel('0 added lines').count(), 0);
      await page.getByRole('link', { name: 'show the call' }).click();
      await page.getByRole('region', { name: 'Story of a call' }).waitFor();
    });
  },

  async 'the newest lines of an open log are in sight, and it stays open'(browser) {
    const server = servers.find(({ name }) => name === 'postgres');
    const before = { ...server };
    try {
      await withPage(browser, { hash: '#/tools/servers', fixture: { questions: [] } }, async (page, fixture) => {
        const log = page.getByRole('group', { name: 'Log of postgres' });
        await log.getByText('connection refused').waitFor();
        server.state = 'running';
        server.logs = Array.from({ length: 200 }, (_, line) => `line ${line} of the log`);
        fixture.send('changed', { what: 'servers' });
        await log.getByText('line 199 of the log').waitFor();
        assert.ok(await log.isVisible());
        const isAtEnd = () => log.evaluate((box) => box.scrollHeight > box.clientHeight && Math.abs(box.scrollTop) < 2);
        await eventually(async () => assert.ok(await isAtEnd()));
        // Without an event.
        server.logs = [...server.logs, 'the newest line'];
        await log.getByText('the newest line').waitFor();
        await eventually(async () => assert.ok(await isAtEnd()));
      });
    } finally {
      Object.assign(server, before);
    }
  },
};
