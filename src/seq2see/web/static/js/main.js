// Entry of the page of a service, and of a saved page.
import { startPage } from "./frame.js";
import * as architecture from "./views/architecture.js";
import * as attention from "./views/attention.js";
import * as attribution from "./views/attribution.js";
import * as decoding from "./views/decoding.js";
import * as intervene from "./views/intervene.js";
import * as lab from "./views/lab.js";
import * as positions from "./views/positions.js";
import * as training from "./views/training.js";
import * as translate from "./views/translate.js";

startPage({ translate, attention, decoding, attribution, intervene, positions, lab, architecture, training });
