/** Answers count for what was shown, once. */
import assert from 'node:assert/strict';
import { eventually, withPage } from './browser.mjs';
import { digestOf } from '../fixture/questions.mjs';

const GUARD_MS = 600;
const answers = (fixture) => fixture.posts.filter(({ path }) => path.endsWith('/answer'));

export const tests = {
  async 'a question that is answered elsewhere leaves, and no other one takes its place'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      await page.waitForTimeout(GUARD_MS);
      const [first] = fixture.questions.keys();
      fixture.end(first, 'once', 'bob');
      await page.getByText('Answered: yes, once, by bob.').waitFor();
      await page.keyboard.press('o');
      await page.waitForTimeout(100);
      assert.equal(answers(fixture).length, 0);
      await page.getByRole('button', { name: 'Next question (1 open)' }).click();
      await page.getByRole('article').getByText('exec', { exact: true }).first().waitFor();
    });
  },

  async 'a late answer says that it does not count'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] }, expectErrors: true }, async (page, fixture) => {
      await page.waitForTimeout(GUARD_MS);
      fixture.questions.clear();
      await page.getByRole('button', { name: 'Yes, once' }).click();
      await page.getByRole('alert').getByText('Your answer did not count.').waitFor();
      await page.getByText('the question is not open any more').waitFor();
    });
  },

  async 'a question that changes must be read again'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] } }, async (page, fixture) => {
      await page.waitForTimeout(GUARD_MS);
      const [[id, question]] = fixture.questions;
      const changed = { ...question, card: { ...question.card, fingerprint: 'f'.repeat(64), arguments: '{ "path": "/etc/passwd" }' } };
      fixture.questions.set(id, changed);
      fixture.send('question', changed);
      await page.getByText('The question has changed since you read it.').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Yes, once' }).isDisabled(), true);
      await page.keyboard.press('o');
      await page.getByRole('button', { name: 'I have read it again' }).click();
      await page.getByRole('button', { name: 'Yes, once' }).click();
      await eventually(() => assert.equal(answers(fixture).length, 1));
      assert.equal(answers(fixture)[0].body.fingerprint, 'f'.repeat(64));
    });
  },

  async 'an answer names the difference that is shown, and a changed difference must be looked at'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] }, expectErrors: true }, async (page, fixture) => {
      await page.waitForTimeout(GUARD_MS);
      const [[id, question]] = fixture.questions;
      const { digest: old, ...shown } = question.preview;
      const lines = [...shown.diff[0].lines, { type: 'add', text: 'let evil = true;' }];
      const preview = { diff: [{ ...shown.diff[0], lines }] };
      const changed = { ...question, preview: { ...preview, digest: digestOf(preview) } };
      // The file changes, and the page does not know it yet: however often it answers.
      fixture.questions.set(id, changed);
      for (let time = 1; time <= 2; time++) {
        await page.getByRole('button', { name: 'Yes, once' }).click();
        await page.getByText('look at the difference again').waitFor();
        await eventually(() => assert.equal(answers(fixture).length, time));
        await page.getByRole('button', { name: 'Yes, once' }).and(page.locator(':enabled')).waitFor();
      }
      fixture.send('question', changed);
      await page.getByText('The question has changed since you read it.').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Yes, once' }).isDisabled(), true);
      await page.getByText('let evil = true;').waitFor();
      await page.getByRole('button', { name: 'I have read it again' }).click();
      await page.getByRole('button', { name: 'Yes, once' }).and(page.locator(':enabled')).click();
      await eventually(() => assert.equal(answers(fixture).length, 3));
      assert.deepEqual(answers(fixture).map(({ body }) => body.preview), [old, old, changed.preview.digest]);
    });
  },

  async 'a difference that arrives under a dialog is not the one that the answer is for'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] }, expectErrors: true }, async (page, fixture) => {
      const [[id, question]] = fixture.questions;
      const { preview, ...before } = question;
      fixture.end(id, 'once', 'bob');
      const asked = { ...before, id: 'late-preview' };
      fixture.questions.set(asked.id, asked);
      fixture.send('question', asked);
      await page.goto(page.url().replace(/#.*/, '#/questions/late-preview'));
      await page.waitForTimeout(GUARD_MS);
      await page.getByRole('button', { name: 'Yes, always…' }).click();
      fixture.questions.set(asked.id, { ...asked, preview });
      fixture.send('question', { ...asked, preview });
      await page.getByText('What will change').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Always allow' }).click();
      await page.getByText('Your answer did not count.').waitFor();
      assert.equal(answers(fixture).at(-1).body.preview, undefined);
    });
  },

  async 'a key that was meant for the card before does not answer the next one'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      await page.waitForTimeout(GUARD_MS);
      await page.keyboard.press('o');
      await page.keyboard.press('o');
      await page.keyboard.press('o');
      await page.waitForTimeout(300);
      assert.equal(answers(fixture).length, 1);
    });
  },

  async 'a new question arrives within a moment, is counted and announced'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
      fixture.ask('exec');
      await page.getByRole('link', { name: 'Questions 1 open' }).waitFor();
      assert.equal(await page.title(), '(1) mimir console – server');
      await page.getByText('New question: exec, high risk').waitFor();
    });
  },

  async 'viewers look and do not answer'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { role: 'viewer' } }, async (page, fixture) => {
      await page.getByText('Your role can see questions, but not answer them.').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Yes, once' }).count(), 0);
      await page.waitForTimeout(GUARD_MS);
      await page.keyboard.press('o');
      await page.waitForTimeout(100);
      assert.equal(fixture.posts.length, 0);
      await page.keyboard.press('!');
      await page.getByRole('dialog').getByText('Stopping all calls needs the role admin; yours is viewer.').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Stop all calls' }).count(), 0);
    });
  },

  async 'a phone answers with a thumb'(browser) {
    await withPage(browser, { width: 360, hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      const yes = page.getByRole('button', { name: 'Yes, once' });
      await page.waitForTimeout(GUARD_MS);
      const box = await yes.boundingBox();
      assert.ok(box.height >= 48 && box.y > 740 * 0.6, `the button is ${box.height} px high, at ${box.y} px`);
      await page.getByRole('button', { name: 'Next question' }).tap();
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
      await page.waitForTimeout(GUARD_MS);
      await page.getByRole('button', { name: 'More…' }).tap();
      await page.getByRole('button', { name: 'Yes, always…' }).waitFor();
      await yes.tap();
      await eventually(() => assert.equal(answers(fixture).length, 1));
      await page.getByRole('heading', { name: 'May edit_file run?' }).waitFor();
    });
  },

  async 'the reason of a question leads to the call that read strangers’ text'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] } }, async (page) => {
      await page.getByText('Where the text of strangers came from').waitFor();
      await page.getByRole('link', { name: 'Show that call' }).click();
      await page.getByRole('region', { name: 'Story of a call' }).getByText('The model asked for the call').waitFor();
    });
  },
};
