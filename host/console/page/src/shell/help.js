/** The list of keys. */
import { html } from '../base/html.js';
import { loginRequired, post } from '../base/api.js';
import { shortcutsOn } from '../base/keys.js';
import { useStore } from '../base/store.js';
import { Switch } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';

const KEYS = [
  ['Everywhere', [
    ['1 … 5', 'Live, Questions, Record, Tools, Policy'],
    ['/', 'search'],
    ['j  k', 'next, previous'],
    ['Enter', 'open'],
    ['Esc', 'back, close'],
    ['!', 'stop all calls (asks first)'],
    ['d', 'colours: as the system, light, dark'],
    ['?', 'this list'],
  ]],
  ['Live', [
    ['p', 'pause the view; calls go on'],
    ['c', 'cancel the call that is open (asks first)'],
    ['t', 'stop the agent of the call that is open (asks first)'],
    ['←  →', 'close, open nested calls'],
  ]],
  ['Questions', [
    ['o', 'yes, once'],
    ['s', 'yes, for this session'],
    ['a', 'yes, always: shows what it covers, and asks'],
    ['e', 'edit the arguments'],
    ['n', 'no, with a reason'],
    ['t', 'stop the agent that asks (asks first)'],
    ['x', 'select for answering several at once'],
  ]],
];

/** Ends the session of this browser. The next request finds out. */
async function logOut() {
  await post('logout').catch(() => {});
  loginRequired.set(true);
}

export function HelpDialog({ onClose }) {
  const isOn = useStore(shortcutsOn);
  return html`
    <${Dialog} title="Keys" onClose=${onClose} wide>
      <div class="key-groups">
        ${KEYS.map(
          ([title, keys]) => html`
            <section key=${title}>
              <h3>${title}</h3>
              <dl class="keys">${keys.map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
            </section>
          `,
        )}
      </div>
      <div class="setting">
        <${Switch} label="Shortcuts of one key" isOn=${isOn} onChange=${(on) => shortcutsOn.set(on)} />
        <span>Shortcuts of one key</span>
      </div>
      <p class="faint small">Text within a frame comes from tools, models, files or servers. Text without a frame is mimir's own.</p>
      <div class="actions"><button onClick=${logOut}>Log out of this browser</button><button autofocus onClick=${onClose}>Close</button></div>
    <//>
  `;
}
