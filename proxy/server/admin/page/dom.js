// Elements and text. Whatever comes from outside (keys, clients' names) gets into the page as text, never as markup.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is no node becomes text. */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

/** The same for what is drawn. */
export function draw(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

/** Set an element's text, if it is another one. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Text that may be too long for its place: all of it shows when one points at it. */
export function putLong(element, text) {
  put(element, text);
  if (element.title !== text) element.title = text;
}

/** Show an attribute only where there is something to say. */
export function mark(element, attribute, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(attribute);
  else if (element.getAttribute(attribute) !== String(value)) element.setAttribute(attribute, value);
}

/** Name and value pairs in a <dl>. */
export function putFacts(list, facts) {
  while (list.children.length > facts.length) list.lastElementChild.remove();
  facts.forEach(([name, value, title], i) => {
    if (!list.children[i]) list.append(make("div", {}, make("dt"), make("dd")));
    const [term, definition] = list.children[i].children;
    put(term, name);
    put(definition, value);
    mark(list.children[i], "title", title);
  });
}
