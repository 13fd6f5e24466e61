import { html } from '../base/html.js';
export const PolicyScreen = () => html`<p class="loading faint">Not built yet.</p>`;
