/** Answers count for what was shown, once. */
import assert from 'node:assert/strict';
import { answerable, connected, eventually, withPage } from './browser.mjs';
import { digestOf } from '../fixture/questions.mjs';

/** Longer than the time in which a new card takes no answer. */
const GUARD_MS = 600;
const answers = (fixture) => fixture.posts.filter(({ path }) => path.endsWith('/answer'));

export const tests = {
  async 'a question that is answered elsewhere leaves, and no other one takes its place'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      await answerable(page);
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
      await answerable(page);
      fixture.questions.clear();
      await page.getByRole('button', { name: 'Yes, once' }).click();
      await page.getByRole('alert').getByText('Your answer did not count.').waitFor();
      await page.getByText('the question is not open any more').waitFor();
    });
  },

  async 'a question that changes must be read again'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] } }, async (page, fixture) => {
      await answerable(page);
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
      await answerable(page);
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
      await page.locator('#title-late-preview').waitFor();
      await page.getByRole('button', { name: 'Yes, always…' }).click();
      fixture.questions.set(asked.id, { ...asked, preview });
      fixture.send('question', { ...asked, preview });
      await page.getByText('What will change').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Always allow' }).click();
      await page.getByText('Your answer did not count.').waitFor();
      assert.equal(answers(fixture).at(-1).body.preview, undefined);
    });
  },

  async 'an edited pattern is what the dialog names, and a refused one stays to be corrected'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['exec'] }, expectErrors: true }, async (page, fixture) => {
      await page.getByRole('button', { name: 'Yes, always…' }).click();
      const dialog = page.getByRole('dialog');
      const pattern = dialog.getByRole('textbox', { name: /^Patterns/ });
      await dialog.getByText('the commands `cargo publish').waitFor();
      await pattern.fill('cargo publish --dry-run -p a');
      await dialog.getByText('the commands `cargo publish').waitFor({ state: 'detached' });
      assert.deepEqual(await dialog.locator('.names code').allInnerTexts(), ['cargo publish --dry-run -p a']);
      await pattern.fill('*');
      await dialog.getByRole('alert').getByText('is not one of the offered patterns').waitFor();
      assert.equal(await dialog.getByRole('button', { name: 'Always allow' }).isDisabled(), true);
      await pattern.press('Tab');
      assert.equal(await pattern.inputValue(), '*');
      // The answer may be refused before the test of the pattern is.
      await page.route('**/matches', () => {});
      await pattern.fill('*');
      await pattern.fill('* ');
      await dialog.getByRole('button', { name: 'Always allow' }).and(page.locator(':enabled')).click();
      await dialog.getByRole('alert').getByText('is not one of the offered patterns').waitFor();
      assert.equal(await pattern.inputValue(), '* ');
      await page.unroute('**/matches');
      await pattern.fill('cargo publish --dry-run -p b');
      await dialog.getByText('2 calls of the last 1,000').waitFor();
      await dialog.getByRole('button', { name: 'Always allow' }).click();
      await dialog.waitFor({ state: 'detached' });
      assert.deepEqual(answers(fixture).at(-1).body.pattern, ['cargo publish --dry-run -p b']);
    });
  },

  async 'nothing that an answer covers is cut'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: [] } }, async (page, fixture) => {
      const question = fixture.ask('edit');
      const text = `allow exec with command="touch ${'long/'.repeat(300)} && git push --force"`;
      const changed = { ...question, card: { ...question.card, always: { text } } };
      fixture.questions.set(question.id, changed);
      fixture.send('question', changed);
      assert.equal(await page.locator('.coverage code').filter({ hasText: '--force"' }).innerText(), text);
      const box = await page.locator('.answers').boundingBox();
      assert.ok(box.height < 400, `the answers are ${box.height} px high`);
      await page.getByRole('button', { name: 'Yes, always…' }).and(page.locator(':enabled')).click();
      assert.equal(await page.getByRole('dialog').locator('.names code').first().innerText(), text);
    });
  },

  async 'several questions say why they have no answer for the session'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      const [[id, question]] = fixture.questions;
      const changed = { ...question, answers: ['once', 'no'] };
      fixture.questions.set(id, changed);
      fixture.send('question', changed);
      for (const tool of ['edit_file', 'exec']) await page.getByRole('checkbox', { name: `Select the question about ${tool}` }).check();
      await page.getByText('“This session” is not offered for edit_file.').waitFor();
      assert.equal(await page.getByRole('button', { name: 'This session…' }).isDisabled(), true);
    });
  },

  async 'several questions show what they change, and one whose difference changes stays'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec', 'plugin'] }, expectErrors: true }, async (page, fixture) => {
      const [[id, question], [exec]] = fixture.questions;
      for (const tool of ['edit_file', 'exec', 'deploy']) await page.getByRole('checkbox', { name: `Select the question about ${tool}` }).check();
      await page.getByRole('button', { name: 'Yes, once…' }).click();
      const dialog = page.getByRole('dialog', { name: 'Yes to 3 questions, once?' });
      await dialog.getByRole('list', { name: 'Selected questions' }).locator('> li').nth(2).waitFor();
      const [edited, commands, plugin] = await dialog.getByRole('list', { name: 'Selected questions' }).locator('> li').all();
      await edited.getByLabel(/added line/).waitFor();
      assert.equal(await edited.getByRole('group', { name: /^Changes of/ }).count(), 0);
      await edited.getByText('src/server/router.rs', { exact: true }).click();
      await edited.getByText('Duration::from_secs(60)').first().waitFor();
      await commands.getByRole('group', { name: 'Command 2' }).getByText('rm -rf target/old').waitFor();
      await plugin.getByRole('group', { name: 'Exact arguments' }).waitFor();
      // The file changes, and the page has the new difference: the dialog shows the old one.
      const lines = [...question.preview.diff[0].lines, { type: 'add', text: 'let evil = true;' }];
      const preview = { diff: [{ ...question.preview.diff[0], lines }] };
      const changed = { ...question, preview: { ...preview, digest: digestOf(preview) } };
      fixture.questions.set(id, changed);
      fixture.send('question', changed);
      await page.locator('.card').getByText('let evil = true;').waitFor({ state: 'attached' });
      await dialog.getByRole('button', { name: 'Allow 3 calls' }).click();
      await page.getByRole('alert').getByText('this answer did not count. a file has changed').waitFor();
      assert.deepEqual([...fixture.questions.keys()], [id]);
      const sent = (of) => answers(fixture).filter(({ path }) => path.includes(of)).map(({ body }) => body.preview);
      assert.deepEqual([sent(id), sent(exec)], [[question.preview.digest], [undefined]]);
      // It is still selected, and is answered with the difference that is shown now.
      await page.getByRole('button', { name: 'Yes, once…' }).click();
      const again = page.getByRole('dialog', { name: 'Yes to 1 question, once?' });
      await again.getByText('src/server/router.rs', { exact: true }).click();
      await again.getByText('let evil = true;').waitFor();
      await again.getByRole('button', { name: 'Allow 1 call' }).click();
      await eventually(() => assert.deepEqual(sent(id), [question.preview.digest, changed.preview.digest]));
      await eventually(() => assert.equal(fixture.questions.size, 0));
    });
  },

  async 'a key that was meant for the card before does not answer the next one'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      await answerable(page);
      await page.keyboard.press('o');
      await page.keyboard.press('o');
      await page.keyboard.press('o');
      await eventually(() => assert.ok(answers(fixture).length));
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
      await page.waitForTimeout(300);
      assert.equal(answers(fixture).length, 1);
    });
  },

  async 'a new question arrives within a moment, is counted and announced'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      await connected(page);
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
      await answerable(page);
      const box = await yes.boundingBox();
      assert.ok(box.height >= 48 && box.y > 740 * 0.6, `the button is ${box.height} px high, at ${box.y} px`);
      await page.getByRole('button', { name: 'Next question' }).tap();
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
      await answerable(page);
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

  async 'an edited call that is asked about again is shown, and says that it waits'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      await page.getByRole('button', { name: 'Edit…' }).and(page.locator(':enabled')).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('textbox').fill('{ "path": "docs/other.md" }');
      await dialog.getByText('The edited call is checked again, and may be asked about again.').waitFor();
      await dialog.getByRole('button', { name: 'Run with these arguments' }).click();
      // Not the question about exec, which is the next one of the list.
      const card = page.getByRole('article');
      await card.getByText('This call was edited, and waits again').waitFor();
      await card.getByRole('heading', { name: 'May edit_file run?' }).waitFor();
      await card.getByRole('group', { name: 'Exact arguments' }).getByText('docs/other.md').waitFor();
      await page.getByRole('button', { name: 'Yes, once' }).and(page.locator(':enabled')).click();
      await eventually(() => assert.deepEqual(answers(fixture).map(({ body }) => body.answer), ['edit', 'once']));
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
      assert.equal(await page.getByText('This call was edited').count(), 0);
    });
  },

  async 'an edited call that is not asked about again leaves the other questions alone'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      await page.route('**/answer', (route) => {
        const [first] = fixture.questions.keys();
        fixture.end(first, 'edit', 'anna');
        return route.fulfill({ json: { counted: true } });
      });
      await page.getByRole('button', { name: 'Edit…' }).and(page.locator(':enabled')).click();
      await page.getByRole('dialog').getByRole('textbox').fill('{ "path": "docs/other.md" }');
      await page.getByRole('button', { name: 'Run with these arguments' }).click();
      await page.getByText('The edited call is checked again. If it has to be asked about again, its question appears here.').waitFor();
      await page.getByRole('button', { name: 'Next question (1 open)' }).click();
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
    });
  },

  async 'questions after strangers’ text say so, also beside the answers of a phone'(browser) {
    const mark = 'after strangers’ text';
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page) => {
      const items = page.getByRole('region', { name: 'Open questions' }).getByRole('listitem');
      await items.filter({ hasText: 'edit_file' }).getByText(mark).waitFor();
      assert.equal(await items.filter({ hasText: 'exec' }).getByText(mark).count(), 0);
      await page.locator('.card-head').getByText(mark).waitFor();
    });
    await withPage(browser, { width: 360, hash: '#/questions', fixture: { questions: ['edit'] } }, async (page) => {
      const yes = await page.getByRole('button', { name: 'Yes, once' }).boundingBox();
      const said = await page.locator('.answers').getByText(mark).boundingBox();
      assert.ok(said.y < yes.y && said.y > 740 * 0.6, `the mark is at ${said.y} px, the answer at ${yes.y} px`);
    });
  },

  async 'the questions of one agent are selected at once'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec', 'edit', 'plugin', 'edit'] }, expectErrors: true }, async (page, fixture) => {
      const ids = [...fixture.questions.keys()];
      for (const id of [ids[1], ids[3]]) {
        const other = { ...fixture.questions.get(id), session: 'other', client: 'codex 1.0' };
        fixture.questions.set(id, other);
        fixture.send('question', other);
      }
      const list = page.getByRole('region', { name: 'Open questions' });
      await list.getByText('codex 1.0').nth(1).waitFor();
      const boxes = list.getByRole('checkbox');
      await boxes.nth(1).check();
      await list.getByRole('button', { name: 'Select 1 more of codex 1.0' }).click();
      await list.getByText('2 questions selected').waitFor();
      await eventually(async () => assert.deepEqual(await boxes.evaluateAll((all) => all.map(({ checked }) => checked)), [false, true, false, true, false]));
      // Shift-click: all from the last one on.
      await boxes.nth(3).uncheck();
      await boxes.nth(1).uncheck();
      await boxes.nth(0).check();
      await boxes.nth(2).click({ modifiers: ['Shift'] });
      await eventually(async () => assert.deepEqual(await boxes.evaluateAll((all) => all.map(({ checked }) => checked)), [true, true, true, false, false]));
      // Too many answers at once are sent again.
      let refusals = 2;
      await page.route('**/answer', (route) => (refusals-- > 0 ? route.fulfill({ status: 429, json: { error: { code: 'LIMIT_EXCEEDED', message: 'too many requests' } } }) : route.continue()));
      await list.getByRole('button', { name: 'No…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Answer no' }).click();
      await eventually(() => assert.deepEqual([...fixture.questions.keys()], ids.slice(3)));
      assert.equal(await page.getByRole('alert').count(), 0);
    });
  },

  async 'a changed question takes a no, which is for the change too'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit'] } }, async (page, fixture) => {
      const [[id, question]] = fixture.questions;
      await page.getByRole('button', { name: 'No…' }).and(page.locator(':enabled')).waitFor();
      const changed = { ...question, card: { ...question.card, fingerprint: 'f'.repeat(64) } };
      fixture.questions.set(id, changed);
      fixture.send('question', changed);
      await page.getByText('The question has changed since you read it.').waitFor();
      await page.getByRole('button', { name: 'No…' }).and(page.locator(':enabled')).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Answer no' }).click();
      await eventually(() => assert.equal(answers(fixture)[0]?.body.fingerprint, 'f'.repeat(64)));
      await page.getByRole('heading', { name: 'No open questions' }).waitFor();
    });
  },

  async 'a reason is shown that was typed when the question ended, and why it ended'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['edit', 'exec'] } }, async (page, fixture) => {
      const [first, second] = fixture.questions.keys();
      await page.getByRole('button', { name: 'No…' }).and(page.locator(':enabled')).click();
      await page.getByRole('dialog').getByRole('textbox').fill('use the staging server');
      fixture.end(first, 'once', 'bob');
      await page.getByText('Your reason was not sent: use the staging server').waitFor();
      await page.getByRole('button', { name: 'Next question (1 open)' }).click();
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
      fixture.end(second, undefined, undefined, 'expired');
      await page.getByText('The agent does not wait for an answer any more. The call did not run.').waitFor();
      assert.equal(await page.getByText('Your reason was not sent').count(), 0);
    });
  },
};
