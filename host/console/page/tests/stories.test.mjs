/** Stories of a person on each screen. */
import assert from 'node:assert/strict';
import { answerable, connected, eventually, settled, withPage } from './browser.mjs';

export const tests = {
  async 'finds a call in the record and undoes its change'(browser) {
    await withPage(browser, { hash: '#/record' }, async (page, fixture) => {
      await page.getByRole('searchbox', { name: 'Search the record' }).fill('web_fetch');
      await eventually(() => assert.match(page.url(), /text=web_fetch/));
      await page.getByRole('button', { name: /^Filters/ }).click();
      await page.getByLabel('Decision').selectOption('ask');
      await page.getByRole('list', { name: 'Active filters' }).getByText('ask').waitFor();
      await page.getByRole('listbox', { name: /^Record/ }).getByRole('option').first().click();
      const story = page.getByRole('region', { name: 'Story of a call' });
      await story.getByText('hash chain intact').waitFor();
      await story.getByText('A person answered: once').waitFor();
      await story.getByText('example.com is not in the list').waitFor();
      await story.getByRole('link', { name: 'Show its change' }).click();
      const change = page.getByRole('region', { name: 'Change', exact: true });
      await change.getByText('let timeout = 30;').waitFor();
      await change.getByRole('button', { name: 'Undo…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Undo the change' }).click();
      await change.getByText('Restored:').waitFor();
      assert.equal(fixture.posts.at(-1).path, 'undo/undo-1');
    });
  },

  async 'finds the calls that were refused, also those that a person refused'(browser) {
    await withPage(browser, { hash: '#/record' }, async (page) => {
      await page.getByRole('link', { name: 'Refused, last 7 days' }).click();
      await eventually(() => assert.match(page.url(), /outcome=refused&since=/));
      const list = page.getByRole('listbox', { name: /^Record/ });
      await list.getByRole('option', { name: /refused.*ask: no, APPROVAL_DENIED/ }).first().waitFor();
      await list.getByRole('option', { name: /refused.*deny, POLICY_DENIED/ }).first().waitFor();
      // The rows from before the filter stay for a moment.
      await eventually(async () => assert.equal(await list.getByRole('option', { name: /EXECUTION_ERROR/ }).count(), 0));
      await page.getByRole('button', { name: /^Filters/ }).click();
      await eventually(async () => assert.equal(await page.getByRole('combobox', { name: /^Outcome/ }).inputValue(), 'refused'));
      await page.getByRole('combobox', { name: /^Outcome/ }).selectOption('stopped');
      await list.getByRole('option', { name: /stopped.*CANCELLED/ }).first().waitFor();
      const exported = await page.getByRole('link', { name: 'Export' }).getAttribute('href');
      assert.match(exported, /outcome=stopped/);
    });
  },

  async 'finds calls of the record by error code and agent'(browser) {
    await withPage(browser, { hash: '#/record' }, async (page) => {
      await page.getByRole('button', { name: /^Filters/ }).click();
      await page.getByLabel('Error code').fill('TIMEOUT');
      await page.getByLabel('Error code').press('Tab');
      const list = page.getByRole('listbox', { name: /^Record/ });
      const others = list.getByRole('option').filter({ hasNotText: 'TIMEOUT' });
      await list.getByRole('option', { name: /TIMEOUT/ }).first().waitFor();
      await eventually(async () => assert.equal(await others.count(), 0));
      await page.getByLabel('Agent').fill('zed');
      await page.getByLabel('Agent').press('Tab');
      await eventually(() => assert.match(page.url(), /client=zed/));
      await eventually(async () => assert.equal(await list.getByRole('option').filter({ hasNotText: 'zed' }).count(), 0));
      await list.getByRole('option', { name: /zed.*TIMEOUT/ }).first().waitFor();
    });
  },

  async 'offers new lines of the record only if they match the filter'(browser) {
    await withPage(browser, { hash: '#/record?tool=exec' }, async (page, fixture) => {
      await connected(page);
      await page.getByText('200 lines loaded').waitFor();
      // The page follows new lines from the next frame on.
      await settled(page);
      const added = page.getByRole('status').filter({ hasText: 'new line' });
      const line = (seq, tool) => ({ seq, tool, event: 'call', time: new Date().toISOString(), ok: true });
      fixture.send('record', [line(100_001, 'read_file'), line(100_002, 'read_file')]);
      await page.waitForTimeout(300);
      assert.equal(await added.count(), 0);
      fixture.send('record', [line(100_003, 'exec'), line(100_004, 'read_file')]);
      await added.getByText('1 new line that matches').waitFor();
      // A filter that only the server can apply: nothing on its record is newer.
      const asked = page.waitForRequest(/api\/record\?.*text=zzz/);
      await page.getByRole('searchbox').fill('zzz');
      await asked;
      await page.getByText('Nothing found').waitFor();
      // The page follows new lines from the next frame on.
      await settled(page);
      const again = page.waitForRequest(/api\/record\?.*text=zzz/);
      fixture.send('record', [line(100_005, 'exec')]);
      await again;
      assert.equal(await added.count(), 0);
    });
  },

  async 'follows the content of strangers from a call to what it led to'(browser) {
    await withPage(browser, { hash: '#/record/call/call-99998' }, async (page) => {
      const story = page.getByRole('region', { name: 'Story of a call' });
      const ledTo = story.getByRole('list', { name: 'What it led to' });
      await ledTo.getByText('src/server/router.rs').waitFor();
      assert.equal(await ledTo.getByRole('listitem').count(), 10);
      await story.getByRole('button', { name: 'Show all 15 calls' }).click();
      assert.equal(await ledTo.getByRole('listitem').count(), 15);
      await story.getByText('Had read content of strangers').waitFor();
      await story.getByRole('link', { name: 'Show that call' }).first().click();
      await eventually(() => assert.match(page.url(), /call-99900/));
    });
  },

  async 'opens long lists of the numbers, and the calls behind them'(browser) {
    await withPage(browser, { hash: '#/record/charts' }, async (page) => {
      const sessions = page.getByRole('region', { name: 'By session' });
      await sessions.waitFor();
      assert.equal(await sessions.getByRole('row').count(), 11);
      await page.getByRole('button', { name: 'Show all 14 sessions' }).click();
      assert.equal(await sessions.getByRole('row').count(), 15);
      await page.getByRole('tab', { name: 'Strangers’ text' }).click();
      await page.getByText('14 of 900 calls that have read such text are listed.').waitFor();
      await page.getByText('No later call of its session was asked about or refused').first().waitFor();
      await page.getByRole('tab', { name: 'Charts' }).click();
      await page.getByRole('link', { name: 'stopped' }).click();
      await eventually(() => assert.match(page.url(), /outcome=stopped&event=call&since=/));
    });
  },

  async 'verifies and exports the record'(browser) {
    await withPage(browser, { hash: '#/record?tool=exec' }, async (page) => {
      await page.getByRole('button', { name: 'Verify' }).click();
      await page.getByRole('dialog', { name: 'The record is intact' }).getByText('100,000 lines in 3 files').waitFor();
      await page.keyboard.press('Escape');
      const download = page.waitForEvent('download');
      await page.getByRole('link', { name: 'Export' }).click();
      assert.equal((await download).suggestedFilename(), 'mimir-record.jsonl');
      assert.match((await download).url(), /tool=exec/);
    });
  },

  async 'asks what another rule would have changed'(browser) {
    await withPage(browser, { hash: '#/record/what-if' }, async (page, fixture) => {
      await page.getByRole('combobox', { name: 'Key' }).fill('tools.exec.approval');
      await page.getByRole('textbox', { name: /^Value/ }).fill('ask');
      await page.getByRole('button', { name: 'Evaluate' }).click();
      await page.getByText('4,812 calls since').waitFor();
      assert.deepEqual(fixture.posts.at(-1), { path: 'policy/what-if', body: { edit: { file: 'user', changes: [{ key: 'tools.exec.approval', yaml: 'ask' }] }, days: 7 } });
    });
  },

  async 'trusts the version that was shown'(browser) {
    await withPage(browser, { hash: '#/tools' }, async (page, fixture) => {
      await page.getByRole('searchbox', { name: 'Search tools' }).fill('deploy');
      await page.getByRole('link', { name: /^deploy/ }).click();
      await page.getByRole('region', { name: 'Tool', exact: true }).getByText('asks for the secret').waitFor();
      await page.getByRole('button', { name: 'Trust…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Trust this version' }).click();
      await eventually(() => assert.deepEqual(fixture.posts.at(-1), { path: 'tools/deploy/trust', body: { digest: '0a'.repeat(32) } }));
      await page.getByRole('button', { name: 'Trust…' }).waitFor({ state: 'hidden' });
    });
  },

  async 'restarts a server, and learns why it cannot'(browser) {
    await withPage(browser, { hash: '#/tools/servers', expectErrors: true }, async (page) => {
      const github = page.getByRole('region', { name: 'Server github' });
      await github.getByRole('button', { name: 'Restart' }).click();
      await github.getByRole('alert').getByText('restart it there').waitFor();
      await page.getByRole('region', { name: 'Server linear' }).getByRole('button', { name: 'Start' }).click();
      await page.getByRole('region', { name: 'Server linear' }).getByText('running').waitFor();
    });
  },

  async 'tests a call against the policy, and changes a rule after its diff'(browser) {
    await withPage(browser, { hash: '#/policy/explain' }, async (page, fixture) => {
      await page.getByLabel('Tool').fill('exec');
      await page.getByLabel('Arguments as JSON').fill('{ "command": "rm -rf x" }');
      await page.getByRole('region', { name: 'Decision' }).getByText('a danger pattern').waitFor();
      await page.getByRole('tab', { name: 'Change' }).click();
      await page.getByRole('combobox', { name: 'Key' }).fill('nonsense.key');
      await page.getByRole('button', { name: 'Show the change' }).click();
      await page.getByText('unknown key').first().waitFor();
      await page.getByRole('combobox', { name: 'Key' }).fill('execApprovals.allow');
      await page.getByRole('textbox', { name: /^Value/ }).fill('["cargo test *"]');
      await page.getByRole('button', { name: 'Show the change' }).click();
      await page.getByRole('region', { name: /^Changes of/ }).getByText('allow: ["cargo test *"]').waitFor();
      await page.getByText('96 calls').waitFor();
      await page.getByRole('button', { name: 'Apply to the file' }).click();
      await page.getByText('Applied.').waitFor();
      assert.equal(fixture.posts.at(-1).body.digest, '07'.repeat(32));
    });
  },

  async 'two browsers see the same question, and one answers'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] } }, async (page, fixture, context) => {
      const other = await context.newPage();
      await other.goto(`${fixture.url}#/questions`);
      await other.getByRole('article').waitFor();
      await answerable(page);
      await page.getByRole('button', { name: 'Yes, once' }).click();
      await other.getByText('Answered: yes, once, by anna.').waitFor();
    });
  },

  async 'a screen that fails leaves the others alone'(browser) {
    await withPage(browser, { hash: '#/live' }, async (page) => {
      await page.route('**/api/record/charts*', (route) => route.fulfill({ contentType: 'application/json', body: '{"buckets":[null],"byTool":7}' }));
      await page.evaluate(() => (location.hash = '#/record/charts'));
      await page.getByRole('heading', { name: 'This screen has failed' }).waitFor();
      await page.getByRole('link', { name: 'Policy' }).click();
      await page.getByRole('heading', { name: 'Team' }).waitFor();
    }).catch((error) => {
      if (!/^(console|error):/m.test(error.message)) throw error;
    });
  },
};
