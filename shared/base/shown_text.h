#pragma once

#include <stddef.h>
#include <stdint.h>

/* Text that others wrote (names in files, arguments, messages of other programs) on its way to a
 * person. Terminals obey control bytes, and readers of JSON, HTML and SVG refuse invalid UTF-8. */
enum { LW_UTF8_REPLACEMENT = 0xfffd };

/* The character at *s, which is not NUL, as a code point; *s moves past it. A byte that begins no
 * valid UTF-8 sequence (RFC 3629) counts as one LW_UTF8_REPLACEMENT. */
uint32_t lw_utf8_next(const char **s);

/* The same, and safe to show: control characters (C0, DEL, C1), line and paragraph separators and
 * overrides of the writing direction become '?'; newline, carriage return and tab become ' '. */
uint32_t lw_shown_next(const char **s);

/* Writes the code point as UTF-8, without a NUL; returns its 1 to 4 bytes. */
int lw_utf8_encode(uint32_t code, char out[4]);

/* text as it is shown, cut at a character so that it fits; returns buf. */
char *lw_shown_text(char *buf, size_t size, const char *text);

/* The part of a path after its last slash. */
const char *lw_base_name(const char *path);

/* What a file is called: "resnet_v1.9" of "/a/resnet_v1.9.rank0.json.gz". Without folders, the rank
 * and the endings of the formats that are read; cut where it does not fit. Returns buf. */
char *lw_file_stem(char *buf, size_t size, const char *path);
