/* costs_file.h: what mode adaptive learnt of this device, kept in the user's cache folder between runs: FORERUN_CACHE, or forerun in
 * XDG_CACHE_HOME or ~/.cache; below it costs/NAME, NAME as fr_info(FR_INFO_COSTS). Whatever fails here, runs go on without. */
#ifndef FR_CLI_COSTS_FILE_H
#define FR_CLI_COSTS_FILE_H

#include "forerun.h"

/* Goes on with what is there. A file that is damaged, or of something else, is passed over. */
void fr_costs_file_load(fr_engine *);
void fr_costs_file_save(fr_engine *);

#endif
