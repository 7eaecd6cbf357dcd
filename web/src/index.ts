export { Forerun, type Stream } from "./engine.js";
export {
  AbortError, ArgumentError, ContextError, DeviceLostError, DisposedError, DownloadError, ForerunError, ModelError, NoGpuError, type ErrorCode,
} from "./errors.js";
export { withPage } from "./page.js";
export type * from "./types.js";
