import { html } from '../base/html.js';
export const RecordScreen = () => html`<p class="loading faint">Not built yet.</p>`;
