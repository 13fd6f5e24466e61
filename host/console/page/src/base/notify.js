/** Notices for a person who does not look at the page: the title, a desktop notification, a polite announcement. */
import { createStore } from './store.js';
import { oneLine } from './format.js';

/** The text that screen readers speak next. */
export const announcement = createStore('');

/** Has a text spoken, after what is being spoken. */
export const announce = (text) => announcement.set(text);

/** The permission for notifications: `default` means that the person can be asked. */
export const permission = createStore('Notification' in window ? Notification.permission : 'unsupported');

/** Asks the browser for the permission. Only after a click. */
export async function askPermission() {
  permission.set(await Notification.requestPermission());
}

/** Shows the number of open questions in the title. */
export function showCount(count, workspace) {
  document.title = `${count ? `(${count}) ` : ''}mimir console${workspace ? ` – ${oneLine(workspace, 400).split('/').at(-1).slice(0, 40)}` : ''}`;
}

/** Notifies about a new question while the page is not in front. */
export function notify(question) {
  if (permission.get() !== 'granted' || !document.hidden) return;
  const { tool, risk } = question.card ?? {};
  const notification = new Notification('mimir: a call waits for your answer', {
    body: `Tool: ${oneLine(tool, 60)}\nRisk: ${oneLine(risk, 12)}`,
    tag: question.id,
  });
  notification.onclick = () => {
    window.focus();
    location.hash = `#/questions/${encodeURIComponent(question.id)}`;
    notification.close();
  };
}
