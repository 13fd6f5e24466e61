/** What the page says when the console has not answered for a while. */
import { html } from '../base/html.js';
import { goneSince } from '../base/events.js';
import { moment } from '../base/format.js';
import { useStore } from '../base/store.js';

/** How calls are stopped without this page. */
export const StopInTerminal = () => html`<p class="message warn">The console cannot be reached. Run <code>mimir stop --all</code> in a terminal to stop all calls.</p>`;

/** Says that the console is gone, and how old the data is. */
export function GoneBanner() {
  const since = useStore(goneSince);
  if (since === null) return null;
  return html`
    <section class="banner" role="alert" aria-label="Console gone">
      <div>
        <strong>The console has ended or cannot be reached.</strong> Everything below is from before ${moment(since)}; calls may run on.
        <div class="small">In a terminal, <code>mimir console</code> opens it again, and <code>mimir stop --all</code> stops all calls.</div>
      </div>
    </section>
  `;
}
