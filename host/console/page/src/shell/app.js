/** The frame of the page: header, navigation, and the screen that the address names. */
import { Component, html, useState } from '../base/html.js';
import { loginRequired } from '../base/api.js';
import { useKeys } from '../base/keys.js';
import { goneSince } from '../base/events.js';
import { announcement } from '../base/notify.js';
import { SCREENS, go, href, route } from '../base/router.js';
import { questions, session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { nextTheme } from '../base/theme.js';
import { Icon } from '../parts/controls.js';
import { LiveScreen } from '../live/live_screen.js';
import { QuestionsScreen } from '../questions/questions_screen.js';
import { RecordScreen } from '../record/record_screen.js';
import { ToolsScreen } from '../tools/tools_screen.js';
import { PolicyScreen } from '../policy/policy_screen.js';
import { Header } from './header.js';
import { HelpDialog } from './help.js';
import { LoginNeeded } from './login.js';
import { GoneBanner } from './gone.js';
import { StopBanner, StopDialog } from './stop.js';

const SCREEN = {
  live: { title: 'Live', view: LiveScreen },
  questions: { title: 'Questions', view: QuestionsScreen },
  record: { title: 'Record', view: RecordScreen },
  tools: { title: 'Tools', view: ToolsScreen },
  policy: { title: 'Policy', view: PolicyScreen },
};

/** The whole page. */
export function App() {
  const { screen } = useStore(route);
  const isLoggedOut = useStore(loginRequired);
  const isGone = useStore(goneSince) !== null;
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  useKeys({
    '?': () => setDialog('help'),
    '!': () => setDialog('stop'),
    d: nextTheme,
    '/': () => document.querySelector('main [data-search]')?.focus(),
    ...Object.fromEntries(SCREENS.map((name, index) => [String(index + 1), () => go(href(name))])),
  });
  if (isLoggedOut) return html`<${LoginNeeded} />`;
  const { title, view: Screen } = SCREEN[screen];
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${Header} onStop=${() => setDialog('stop')} onHelp=${() => setDialog('help')} />
    <${Navigation} screen=${screen} />
    <main id="main" class=${isGone ? 'stale' : ''} tabindex="-1" aria-label=${title}>
      <${GoneBanner} />
      <${StopBanner} />
      <${Guarded} key=${screen}><${Screen} /><//>
    </main>
    <${Announcer} />
    ${dialog === 'help' && html`<${HelpDialog} onClose=${close} />`}
    ${dialog === 'stop' && html`<${StopDialog} onClose=${close} />`}
  `;
}

function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Navigation({ screen }) {
  const open = useStore(questions, (list) => list.length);
  return html`
    <nav class="navigation" aria-label="Screens">
      ${SCREENS.map(
        (name) => html`
          <a key=${name} href=${href(name)} aria-current=${name === screen ? 'page' : undefined}>
            <${Icon} name=${name} />
            <span>${SCREEN[name].title}</span>
            ${name === 'questions' && open > 0 && html`<span class="badge" aria-label=${`${open} open`}>${open > 99 ? '99+' : open}</span>`}
          </a>
        `,
      )}
    </nav>
  `;
}

function Announcer() {
  const text = useStore(announcement);
  return html`<div class="visually-hidden" role="status" aria-live="polite">${text}</div>`;
}

/** Shows an error of one screen in its place, so that the rest of the page goes on. */
class Guarded extends Component {
  state = { error: null };

  static getDerivedStateFromError(error) {
    return { error };
  }

  componentDidCatch(error) {
    console.error(error);
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`
      <div class="empty" role="alert">
        <h2>This screen has failed</h2>
        <p>The other screens and Stop all still work. Reload the page to try again; details are in the browser's console.</p>
        <button onClick=${() => this.setState({ error: null })}>Try again</button>
      </div>
    `;
  }
}

