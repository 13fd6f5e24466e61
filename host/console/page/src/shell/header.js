/** The header: the workspace, the connection, and Stop all. */
import { html, useState } from '../base/html.js';
import { visible } from '../base/format.js';
import { connection, goneSince } from '../base/events.js';
import { session, isAdmin } from '../base/session.js';
import { useStore } from '../base/store.js';
import { nextTheme, theme } from '../base/theme.js';
import { Icon } from '../parts/controls.js';
import { Name } from '../parts/text.js';
import { PairDialog } from './pair.js';

const CONNECTION = {
  connecting: { text: 'Connecting', tone: 'faint' },
  live: { text: 'Connected', tone: 'good' },
  lost: { text: 'Reconnecting', tone: 'warn' },
};
const GONE = { text: 'Console gone', tone: 'bad' };
const THEME = { auto: 'as the system', light: 'light', dark: 'dark' };

/** The last part of a path. */
export const folderName = (path) => String(path ?? '').split(/[\\/]/).filter(Boolean).at(-1) ?? '';

export function Header({ onStop, onHelp }) {
  const state = useStore(session);
  const link = useStore(connection);
  const colours = useStore(theme);
  const [isPairing, setPairing] = useState(false);
  const isGone = useStore(goneSince) !== null;
  const { text, tone } = isGone ? GONE : CONNECTION[link];
  return html`
    <header class="header">
      <h1 class="brand">mimir<span class="visually-hidden"> console</span></h1>
      ${state && html`<div class="workspace" title=${visible(state.workspace)}><${Name} text=${folderName(state.workspace)} max=${40} /></div>`}
      <span class=${`connection ${tone}`} role="status"><span class="dot"></span><span class="connection-text">${text}</span></span>
      <span class="spacer"></span>
      ${state && html`<span class="who faint">${state.user ? html`<${Name} text=${state.user} max=${40} /> ` : null}${state.role}</span>`}
      ${isAdmin(state) && state.local && html`<button class="icon-button pair-button" aria-label="Pair a phone" title="Pair a phone" onClick=${() => setPairing(true)}><${Icon} name="phone" /></button>`}
      <button class="icon-button" aria-label=${`Colours: ${THEME[colours]}`} title=${`Colours: ${THEME[colours]}`} onClick=${nextTheme}><${Icon} name="theme" /></button>
      <button class="icon-button help-button" aria-label="Keys and help" title="Keys and help (?)" onClick=${onHelp}>?</button>
      <button class="danger stop-button" onClick=${onStop} disabled=${!!state?.stop}><${Icon} name="stop" />${state?.stop ? 'Stopped' : isAdmin(state) || !state ? 'Stop all' : 'Stop…'}</button>
      ${isPairing && html`<${PairDialog} onClose=${() => setPairing(false)} />`}
    </header>
  `;
}
