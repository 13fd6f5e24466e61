/** The code that opens the console on a phone. */
import { html, useEffect, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { duration, millis } from '../base/format.js';
import { session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { useSeconds } from '../base/seconds.js';
import { ErrorText, Loading } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';

export function PairDialog({ onClose }) {
  const [pair, setPair] = useState(null);
  const [error, setError] = useState(null);
  const now = useSeconds();
  const canPair = useStore(session)?.lan !== false;
  useEffect(() => {
    if (canPair) post('pair').then(setPair, setError);
  }, []);
  const left = millis(pair?.expiresAt) - now;
  return html`
    <${Dialog} title="Pair a phone" onClose=${onClose}>
      <${ErrorText} error=${error} />
      ${!canPair && html`<p>A phone reaches this page over the local network, which is off. Start the console with it:</p><p><code class="name">mimir console --lan</code></p>`}
      ${canPair && !pair && !error && html`<${Loading} what="the code" />`}
      ${pair &&
      html`
        <p>Scan this with a phone in the same network. It works once${left > 0 ? `, for ${duration(left)}` : ', and has expired'}. The phone may answer questions; it cannot change settings.</p>
        <${QrCode} rows=${pair.qr ?? []} />
        <p class="small faint">Or open <code class="name">${pair.url}</code></p>
        <p class="small faint">The connection is not encrypted: only pair in a network that you trust.</p>
      `}
      <div class="actions"><button autofocus onClick=${onClose}>Close</button></div>
    <//>
  `;
}

const QUIET = 4;

function QrCode({ rows }) {
  const size = rows.length + 2 * QUIET;
  const path = rows.map((row, y) => row.map((dark, x) => (dark ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : '')).join('')).join('');
  return html`<svg class="qr" viewBox=${`0 0 ${size} ${size}`} role="img" aria-label="QR code of the link below" shape-rendering="crispEdges"><rect width=${size} height=${size} /><path d=${path} /></svg>`;
}
