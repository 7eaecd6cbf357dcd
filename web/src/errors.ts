// Every error that leaves the package is a ForerunError: `code` for programs, `message` for people (what, where, what to do).

export type ErrorCode =
  | "no_gpu" | "model" | "download" | "argument" | "context" | "device_lost" | "abort" | "disposed" | "failed";

export class ForerunError extends Error {
  override readonly name: string = "ForerunError";
  readonly code: ErrorCode = "failed";
}

/** No WebGPU, no adapter, or an adapter whose limits are too small for the model. */
export class NoGpuError extends ForerunError {
  override readonly name = "NoGpuError";
  override readonly code = "no_gpu";
}

/** The file is not a GGUF model, is damaged, or needs something that isn't supported. */
export class ModelError extends ForerunError {
  override readonly name = "ModelError";
  override readonly code = "model";
}

/** The model's bytes could not be fetched or read. `status` is the HTTP status where there was an answer. */
export class DownloadError extends ForerunError {
  override readonly name = "DownloadError";
  override readonly code = "download";
  readonly status: number | undefined;
  constructor(message: string, options?: ErrorOptions & { status?: number | undefined }) {
    super(message, options);
    this.status = options?.status;
  }
}

/** A parameter is wrong or not supported. */
export class ArgumentError extends ForerunError {
  override readonly name = "ArgumentError";
  override readonly code = "argument";
}

/** The prompt does not fit into the context. */
export class ContextError extends ForerunError {
  override readonly name = "ContextError";
  override readonly code = "context";
}

/** The browser took the GPU away (driver reset, sleep, out of memory). The engine is unusable: dispose it and load again. */
export class DeviceLostError extends ForerunError {
  override readonly name = "DeviceLostError";
  override readonly code = "device_lost";
}

/** The caller's AbortSignal ended a load, or a request before it had begun. Named as the platform's own. */
export class AbortError extends ForerunError {
  override readonly name = "AbortError";
  override readonly code = "abort";
}

/** The engine was disposed. */
export class DisposedError extends ForerunError {
  override readonly name = "DisposedError";
  override readonly code = "disposed";
}

/** An error as it travels between worker and page. @internal */
export interface WireError {
  code: ErrorCode;
  message: string;
  status?: number | undefined;
}

const classes = {
  no_gpu: NoGpuError, model: ModelError, download: DownloadError, argument: ArgumentError, context: ContextError,
  device_lost: DeviceLostError, abort: AbortError, disposed: DisposedError, failed: ForerunError,
};

/** @internal */
export function toWire(error: unknown): WireError {
  if (error instanceof DownloadError) return { code: error.code, message: error.message, status: error.status };
  if (error instanceof ForerunError) return { code: error.code, message: error.message };
  const message = error instanceof Error ? error.message : String(error);
  return { code: "failed", message: `${message || "unknown error"} (an internal error of the engine; load the model again)` };
}

/** @internal */
export function fromWire(error: WireError): ForerunError {
  return error.code === "download" ? new DownloadError(error.message, { status: error.status }) : new classes[error.code](error.message);
}
