// Elements and text. Whatever comes from outside (keys, clients' names) gets into the page as text, never as markup.

/** @import { Elements } from "./types.d.ts" */

/**
 * An element of page.html.
 * @template {string} Id
 * @param {Id} id
 * @returns {Id extends keyof Elements ? Elements[Id] : HTMLElement}
 */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * An element with attributes and children; a child that is no node becomes text.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number | undefined>} attributes those that are undefined are left out
 * @param {(Node | string)[]} children
 */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number | undefined>} attributes
 * @param {Node[]} children
 */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/**
 * @template {Element} Made
 * @param {Made} made
 * @param {Record<string, string | number | undefined>} attributes
 * @param {(Node | string)[]} children
 */
function filled(made, attributes, children) {
  for (const [attribute, value] of Object.entries(attributes)) mark(made, attribute, value);
  made.append(...children);
  return made;
}

/**
 * Set an element's text, if it is another one.
 * @param {Element} element
 * @param {string} text
 */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Text that may be too long for its place: all of it shows when one points at it.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function putLong(element, text) {
  put(element, text);
  if (element.title !== text) element.title = text;
}

const END = 12; // characters of a long key that are never cut off

/**
 * A key that may be too long for its place: it is cut in its middle, since keys often differ in their last part alone.
 * @param {HTMLElement} element
 * @param {string} key
 */
export function putKey(element, key) {
  if (element.title === key) return;
  element.title = key;
  const characters = [...key];
  const long = characters.length > 2 * END;
  mark(element, "data-cut", long && "");
  if (long) element.replaceChildren(make("span", {}, characters.slice(0, -END).join("")), make("span", {}, characters.slice(-END).join("")));
  else element.textContent = key;
}

/**
 * Show an attribute only where there is something to say.
 * @param {Element} element
 * @param {string} attribute
 * @param {string | number | boolean | null | undefined} value
 */
export function mark(element, attribute, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(attribute);
  else if (element.getAttribute(attribute) !== String(value)) element.setAttribute(attribute, String(value));
}

/**
 * Name and value pairs in a <dl>, each with a title if it has one.
 * @param {Element} list
 * @param {[string, string, string?][]} facts
 */
export function putFacts(list, facts) {
  while (list.children.length > facts.length) list.lastElementChild?.remove();
  facts.forEach(([name, value, title], i) => {
    if (!list.children[i]) list.append(make("div", {}, make("dt"), make("dd")));
    const [term, definition] = list.children[i].children;
    put(term, name);
    put(definition, value);
    mark(list.children[i], "title", title);
  });
}

/**
 * Fill a select; the chosen option stays if it is still there.
 * @param {HTMLSelectElement} select
 * @param {string[]} values
 * @param {(value: string) => string} label
 */
export function showOptions(select, values, label) {
  if ([...select.options].map((option) => option.value).join("\n") === values.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...values.map((value) => make("option", { value }, label(value))));
  if (values.includes(chosen)) select.value = chosen;
}

/**
 * A line over everything, or none.
 * @param {string} name
 * @param {string | null} words
 */
export function notice(name, words) {
  let line = document.getElementById(`notice-${name}`);
  if (words === null) {
    line?.remove();
    return;
  }
  if (!line) {
    line = make("p", { class: "notice", id: `notice-${name}` });
    byId("notices").append(line);
  }
  put(line, words);
}
