/** Start of the page. */
import { html, render } from './base/html.js';
import './base/theme.js';
import { post, loginRequired } from './base/api.js';
import { openEvents } from './base/events.js';
import { announce, notify, showCount } from './base/notify.js';
import { takeKey } from './base/router.js';
import * as shared from './base/session.js';
import { pushRecord } from './record/new_entries.js';
import { oneLine } from './base/format.js';
import { App } from './shell/app.js';

const key = takeKey();
const title = () => showCount(shared.questions.get().length, shared.session.get()?.workspace);
shared.questions.subscribe(title);
shared.session.subscribe(title);
// Questions that were missed while the connection was lost are new, too. Those of the first load are not.
let known = null;
shared.questions.subscribe((open) => {
  for (const { id, card, ...question } of open) {
    if (!known || known.has(id)) continue;
    announce(`New question: ${oneLine(card?.tool, 60)}, ${oneLine(card?.risk, 12)} risk`);
    notify({ id, card, ...question });
  }
  known = new Set(open.map(({ id }) => id));
});

const root = document.getElementById('app');
root.replaceChildren();
render(html`<${App} />`, root);
start();

async function start() {
  if (key) await post('login', { key }).catch(() => {});
  try {
    await shared.loadState();
  } catch {
    if (loginRequired.get()) return;
  }
  openEvents({
    load: shared.loadLists,
    calls(events, overlap) {
      shared.live.applyAll(events, overlap);
      shared.touchLive();
    },
    change: {
      question: shared.storeQuestion,
      'question-ended': shared.endQuestion,
      stop: (stop) => shared.session.set({ ...shared.session.get(), stop }),
    },
    on: { record: pushRecord },
  });
}
