// Data in the page itself: {} if a service serves the page, {hash, responses} in a saved page, {trace} in the page of one trace.
const data = JSON.parse(document.querySelector("#data").textContent);

export const { hash = location.hash, responses = null, trace = null } = data;

export const isServed = !responses && !trace;
