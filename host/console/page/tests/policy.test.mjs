/** Rules and settings: rows, edits as YAML, faults at their fields; the order of the tools; long lists. */
import assert from 'node:assert/strict';
import { eventually, withPage } from './browser.mjs';
import { findKey, suggestKeys } from '../src/policy/setting_keys.js';

const body = (fixture, path) => fixture.posts.filter((one) => one.path === path).at(-1)?.body;

export const tests = {
  async 'settings are rows of their file, and the filter finds them'(browser) {
    await withPage(browser, { hash: '#/policy' }, async (page) => {
      const project = page.getByRole('region', { name: 'Rules: Project settings' });
      await project.getByText('1 rule, 1 setting').waitFor();
      await page.getByRole('searchbox', { name: 'Filter rules' }).fill('allowedhosts');
      await page.getByText('docs.rs, crates.io').waitFor();
      await project.getByText('None of its rules fits the filter.').waitFor();
      await page.getByRole('searchbox', { name: 'Filter rules' }).fill('');
      await page.getByRole('button', { name: 'Show all 12 tools' }).click();
      await page.getByText('mcp_github_list_issues').waitFor();
    });
  },

  async 'a row is changed in a dialog, with YAML, and a fault is at its field'(browser) {
    await withPage(browser, { hash: '#/policy' }, async (page, fixture) => {
      await page.getByRole('button', { name: 'Change limits.timeMs' }).click();
      const dialog = page.getByRole('dialog', { name: 'Change a setting' });
      const value = dialog.getByRole('textbox', { name: /^Value/ });
      assert.equal(await value.inputValue(), '120000');
      await dialog.getByText('Expected: a whole number.').waitFor();
      await value.fill('soon');
      await dialog.getByRole('button', { name: 'Show the change' }).click();
      await dialog.getByText('`limits.timeMs` must be a whole number.').waitFor();
      assert.equal(await value.getAttribute('aria-invalid'), 'true');
      await value.fill('90000 # 90 s');
      assert.equal(await value.getAttribute('aria-invalid'), 'false');
      await dialog.getByRole('button', { name: 'Show the change' }).click();
      await dialog.getByRole('button', { name: 'Apply to the file' }).click();
      await dialog.getByText('Applied.').waitFor();
      await dialog.getByRole('button', { name: 'Close' }).waitFor();
      assert.deepEqual(body(fixture, 'policy/apply').edit, { file: 'project', changes: [{ key: 'limits.timeMs', yaml: '90000 # 90 s' }] });
    });
  },

  async 'viewers have no buttons that change rules'(browser) {
    await withPage(browser, { hash: '#/policy', fixture: { role: 'viewer' } }, async (page) => {
      await page.getByText('docs.rs, crates.io').waitFor();
      await page.getByRole('region', { name: 'Answered “always”' }).waitFor();
      assert.equal(await page.getByRole('button', { name: /^(Change|Revoke) / }).count(), 0);
    });
  },

  async 'approvers revoke an approval after a confirmation, with the keyboard'(browser) {
    await withPage(browser, { hash: '#/policy', fixture: { role: 'approver' } }, async (page, fixture) => {
      const approvals = page.getByRole('region', { name: 'Answered “always”' });
      const button = approvals.getByRole('button', { name: 'Revoke exec with command `cargo publish --dry-run *`' });
      await button.press('Enter');
      const dialog = page.getByRole('dialog', { name: 'Revoke this approval?' });
      await dialog.getByText('cargo publish --dry-run').waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'hidden' });
      assert.equal(fixture.posts.length, 0);
      await button.press('Enter');
      await dialog.getByRole('button', { name: 'Revoke' }).press('Enter');
      await approvals.waitFor({ state: 'hidden' });
      await page.getByText('The approval is revoked.').waitFor({ state: 'attached' });
      assert.deepEqual(fixture.posts, [{ path: `approvals/${'a'.repeat(64)}/revoke`, body: {} }]);
    });
  },

  async 'an approval that was revoked elsewhere says so, and leaves the list'(browser) {
    await withPage(browser, { hash: '#/policy/least', expectErrors: true }, async (page, fixture) => {
      const approvals = page.getByRole('region', { name: 'Approvals not used in 30 days' });
      await approvals.getByRole('button', { name: /^Revoke / }).click();
      const dialog = page.getByRole('dialog', { name: 'Revoke this approval?' });
      fixture.revoked.add('b'.repeat(64));
      await dialog.getByRole('button', { name: 'Revoke' }).click();
      await dialog.getByRole('alert').getByText('it may have been revoked already').waitFor();
      await approvals.waitFor({ state: 'hidden' });
      await dialog.getByRole('button', { name: 'Back' }).click();
      await dialog.waitFor({ state: 'hidden' });
    });
  },

  async 'keys are suggested, with the names of tools'() {
    const keys = [{ key: 'policy.deny' }, { key: 'tools.*.approval' }, { key: 'secrets.*.env' }];
    const suggested = (typed) => suggestKeys(keys, typed, ['exec', 'read_file']).map(({ key }) => key);
    assert.deepEqual(suggested(''), ['policy.deny', 'tools.exec.approval', 'tools.read_file.approval']);
    assert.deepEqual(suggested('tools.r'), ['tools.read_file.approval']);
    assert.deepEqual(suggested('tools.other.'), ['tools.other.approval']);
    assert.deepEqual(suggested('secrets.KEY.'), ['secrets.KEY.env']);
    assert.equal(findKey(keys, 'tools.x.approval').key, 'tools.*.approval');
    assert.equal(findKey(keys, 'tools..approval'), undefined);
  },

  async 'what if names the calls that it could not judge, and how to record arguments'(browser) {
    await withPage(browser, { hash: '#/record/what-if?tool=exec' }, async (page, fixture) => {
      await page.getByRole('button', { name: 'Evaluate' }).click();
      await page.getByText('112 calls: their arguments are not on record').waitFor();
      assert.deepEqual(body(fixture, 'policy/what-if').edit.changes, [{ key: 'tools.exec.approval', yaml: 'ask' }]);
      await page.getByRole('button', { name: 'Show all 7 examples' }).click();
      assert.equal(await page.getByRole('list', { name: 'Examples' }).getByRole('listitem').count(), 7);
      await page.getByRole('link', { name: 'Record arguments from now on…' }).click();
      // The form of the screen before has a field of the same name.
      const key = page.getByRole('combobox', { name: 'Key' });
      await eventually(async () => assert.equal(await key.inputValue(), 'audit.logArgs'));
      assert.equal(await page.getByRole('textbox', { name: /^Value/ }).inputValue(), 'true');
    });
  },

  async 'tools that were used come first, and the chosen order stays'(browser) {
    await withPage(browser, { hash: '#/tools' }, async (page) => {
      const names = () => page.locator('.tool-item .name.strong').allTextContents();
      await page.getByRole('heading', { name: 'Used in the last 30 days (8)' }).waitFor();
      assert.deepEqual((await names()).slice(0, 3), ['browser', 'edit_file', 'file_search']);
      await page.getByRole('combobox', { name: 'Order of the tools' }).selectOption('tokens');
      await eventually(async () => assert.equal((await names())[1], 'mcp_github_list_issues'));
      await page.reload();
      await page.locator('.tool-item').first().waitFor();
      assert.equal((await names())[1], 'mcp_github_list_issues');
    });
  },

  async 'a console without the local network says how to start it for a phone'(browser) {
    await withPage(browser, { hash: '#/live' }, async (page, fixture) => {
      fixture.state.lan = false;
      await page.reload();
      await page.getByRole('button', { name: 'Pair a phone' }).click();
      await page.getByRole('dialog').getByText('mimir console --lan').waitFor();
      assert.equal(fixture.posts.filter(({ path }) => path === 'pair').length, 0);
    });
  },

  async 'what speaks for a call is not among the reasons to ask'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['exec'] } }, async (page) => {
      const card = page.getByRole('article');
      await card.locator('.because').getByText('removes whole folders').waitFor();
      const others = card.getByText('your setting allows all calls of exec');
      assert.equal(await others.isVisible(), false);
      await card.getByText('Also considered (1)').click();
      await others.waitFor();
    });
  },
};
