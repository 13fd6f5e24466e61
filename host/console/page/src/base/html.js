/** The template tag and the hooks of Preact that the page uses. */
import { h } from 'preact';
import htm from 'htm';

export { Component, Fragment, render } from 'preact';
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

/** Creates elements from a template. Static parts are not cached: a cached element may not be in the tree twice. */
export const html = htm.bind(function createElement(...args) {
  this[0] = 3;
  return h(...args);
});
