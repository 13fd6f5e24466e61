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
    on: {
      question(question) {
        if (!shared.storeQuestion(question)) return;
        announce(`New question: ${oneLine(question.card?.tool, 60)}, ${oneLine(question.card?.risk, 12)} risk`);
        notify(question);
      },
      'question-ended': shared.endQuestion,
      record: pushRecord,
      stop: (stop) => shared.session.set({ ...shared.session.get(), stop }),
    },
  });
}
