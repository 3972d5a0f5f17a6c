#pragma once

/* The machine's speed as shares of the calibrated one: "0.910 (0.860 to 0.970)"; returns buf. */
enum { LW_SPEED_TEXT = 64 };
const char *lw_speed_text(char buf[LW_SPEED_TEXT], double median, double p10, double p90);
