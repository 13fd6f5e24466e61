/** Everything is done with the keyboard. */
import assert from 'node:assert/strict';
import { answerable, eventually, withPage } from './browser.mjs';

const answers = (fixture) => fixture.posts.filter(({ path }) => path.endsWith('/answer'));
const title = (page) => page.getByRole('article').getByRole('heading', { level: 2 });

export const tests = {
  async 'answers one question after the other'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: ['edit', 'exec', 'edit', 'exec'] } }, async (page, fixture) => {
      await eventually(async () => assert.equal(await page.title(), '(4) mimir console – server'));
      await page.keyboard.press('2');
      await title(page).getByText('edit_file').waitFor();
      await answerable(page);
      await page.keyboard.press('o');
      await title(page).getByText('exec').waitFor();
      await eventually(() => assert.equal(answers(fixture).length, 1));
      const { fingerprint, preview, ...first } = answers(fixture)[0].body;
      assert.deepEqual(first, { answer: 'once' });
      assert.match(fingerprint, /^[0-9a-f]{64}$/);
      assert.match(preview, /^[0-9a-f]{64}$/);

      await answerable(page);
      await page.keyboard.press('n');
      await page.getByRole('dialog').getByRole('textbox').waitFor();
      await page.keyboard.type('use the staging server');
      await page.keyboard.press('Enter');
      await eventually(() => assert.equal(answers(fixture)[1]?.body.reason, 'use the staging server'));
      assert.equal(answers(fixture)[1].body.answer, 'no');

      await title(page).getByText('edit_file').waitFor();
      await answerable(page);
      await page.keyboard.press('s');
      await eventually(() => assert.equal(answers(fixture)[2]?.body.answer, 'session'));

      await title(page).getByText('exec').waitFor();
      await answerable(page);
      await page.keyboard.press('a');
      const dialog = page.getByRole('dialog', { name: 'Always allow this?' });
      await dialog.getByText('14 calls of the last 1,000').waitFor();
      assert.equal(answers(fixture).length, 3, 'always is not sent before it is confirmed');
      await dialog.getByRole('textbox').fill('rm -rf target/old');
      await dialog.getByText('2 calls of the last 1,000').waitFor();
      await dialog.getByRole('button', { name: 'Always allow' }).press('Enter');
      await eventually(() => assert.deepEqual(answers(fixture)[3]?.body.pattern, ['rm -rf target/old']));
      await page.getByRole('heading', { name: 'No open questions' }).waitFor();
      assert.equal(await page.title(), 'mimir console – server');
    });
  },

  async 'edits arguments, with a check of the JSON'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] } }, async (page, fixture) => {
      await answerable(page);
      await page.keyboard.press('e');
      const box = page.getByRole('dialog').getByRole('textbox');
      await box.fill('{ "path": ');
      await page.getByText(/^Not valid JSON/).waitFor();
      assert.equal(await page.getByRole('button', { name: 'Run with these arguments' }).isDisabled(), true);
      await box.fill('{ "path": "src/other.rs" }');
      await page.getByRole('button', { name: 'Run with these arguments' }).press('Enter');
      await eventually(() => assert.deepEqual(answers(fixture)[0]?.body.arguments, { path: 'src/other.rs' }));
    });
  },

  async 'answers several at once'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec', 'plugin'] } }, async (page, fixture) => {
      await answerable(page);
      await page.keyboard.press('x');
      await page.keyboard.press('j');
      await title(page).getByText('exec').waitFor();
      await page.keyboard.press('x');
      await page.getByRole('group', { name: 'Answer the selected questions' }).getByRole('button', { name: 'Yes, once…' }).press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByText('high risk').waitFor();
      await dialog.getByRole('button', { name: 'Allow 2 calls' }).press('Enter');
      await eventually(() => assert.equal(answers(fixture).length, 2));
      await title(page).getByText('deploy').or(page.getByText('Answered:')).waitFor();
    });
  },

  async 'moves through the calls, opens one and cancels it'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: ['exec'] } }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      await page.keyboard.press('j');
      await page.getByRole('region', { name: 'Call', exact: true }).getByRole('heading', { name: 'exec' }).waitFor();
      await page.keyboard.press('c');
      await page.getByRole('dialog', { name: 'Cancel this call?' }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      assert.equal(fixture.posts.length, 0);
      // The dialog is gone before the page knows that it was closed.
      await eventually(async () => {
        await page.keyboard.press('c');
        await page.getByRole('dialog', { name: 'Cancel this call?' }).waitFor({ timeout: 500 });
      });
      await page.keyboard.press('Enter');
      await eventually(() => assert.match(fixture.posts[0]?.path ?? '', /^calls\/.+\/cancel$/));
      await page.getByText('cancelled', { exact: true }).first().waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('region', { name: 'Call', exact: true }).waitFor({ state: 'hidden' });
    });
  },

  async 'stops all calls and starts them again'(browser) {
    await withPage(browser, { hash: '#/record' }, async (page, fixture) => {
      await page.keyboard.press('!');
      await page.getByRole('dialog', { name: 'Stop all calls?' }).waitFor();
      await page.keyboard.type('it deletes the wrong files');
      await page.keyboard.press('Enter');
      await page.getByRole('alert', { name: 'Stopped' }).getByText('it deletes the wrong files').waitFor();
      assert.deepEqual(fixture.posts, [{ path: 'stop', body: { reason: 'it deletes the wrong files' } }]);
      // The stop may be shown before the answer to the request closes the dialog, which would take the key.
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      await page.getByRole('button', { name: 'Start again…' }).press('Enter');
      await page.getByRole('dialog').getByRole('button', { name: 'Start again' }).press('Enter');
      await page.getByRole('alert', { name: 'Stopped' }).waitFor({ state: 'hidden' });
    });
  },

  async 'shows the keys, and can switch them off'(browser) {
    await withPage(browser, { hash: '#/questions' }, async (page, fixture) => {
      await answerable(page);
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keys' }).getByRole('switch').press('Enter');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      await page.keyboard.press('o');
      await page.waitForTimeout(100);
      assert.equal(fixture.posts.length, 0);
    });
  },

  async 'reaches everything with Tab, with a visible focus'(browser) {
    await withPage(browser, { hash: '#/questions' }, async (page) => {
      await answerable(page);
      const seen = new Set();
      for (let index = 0; index < 60; index++) {
        await page.keyboard.press('Tab');
        const focused = await page.evaluate(() => {
          const element = document.activeElement;
          const { outlineStyle, outlineWidth } = getComputedStyle(element);
          return { name: element.getAttribute('aria-label') ?? element.textContent.slice(0, 40), tag: element.tagName, outline: outlineStyle !== 'none' && outlineWidth !== '0px' };
        });
        if (focused.tag === 'BODY') continue;
        assert.equal(focused.outline, true, `no visible focus on ${focused.tag} ${focused.name}`);
        seen.add(focused.name);
      }
      for (const name of ['Skip to content', 'Pair a phone', 'Stop all', 'Live', 'Yes, onceo', 'Yes, always…a', 'Edit…e', 'No…n', 'Exact arguments']) {
        assert.ok([...seen].some((one) => one === name || one.startsWith(name)), `${name} is not reached: ${[...seen].join(' | ')}`);
      }
    });
  },
};
