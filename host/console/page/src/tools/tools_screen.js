import { html } from '../base/html.js';
export const ToolsScreen = () => html`<p class="loading faint">Not built yet.</p>`;
