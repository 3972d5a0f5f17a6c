#pragma once

/* Why a model_type of config.json is not modelled; NULL: nothing is known about it. */
const char *traces_hf_refused(const char *model_type);
