// Entry of the page of one trace, which needs no service.
import { trace } from "./embedded.js";
import { startPage } from "./frame.js";
import * as attention from "./views/attention.js";
import * as attribution from "./views/attribution.js";
import * as decoding from "./views/decoding.js";
import * as intervene from "./views/intervene.js";

startPage({
  ...(trace.attention.length && { attention }), decoding, ...(trace.attributions.length && { attribution }),
  ...(trace.intervention_effect && { intervene }),
});
