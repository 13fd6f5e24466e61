/** The page of a browser without a session. */
import { html } from '../base/html.js';

/** A server mounts the console below /console/. */
const onServer = location.pathname.startsWith('/console/');

export function LoginNeeded() {
  return html`
    <main class="login" aria-labelledby="login-title">
      <div class="login-card">
        <h1 id="login-title">Open the console again</h1>
        <p>This browser is not logged in, or its session has ended. A link works once, within ten minutes.</p>
        <p>In the workspace, run</p>
        <pre class="command">mimir console</pre>
        <p>and open the new link. For a phone, use “Pair a phone” on the page of the machine.</p>
        ${onServer && html`<p>On a server with logins: <a class="button primary" href="login">Log in</a></p>`}
      </div>
    </main>
  `;
}
