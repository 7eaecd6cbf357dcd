// The engine's worker behind the recorder.
import "./recorder.js";
import "/forerun/worker.js";
