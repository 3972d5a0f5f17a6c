#ifndef LW_TESTS_LIB_FAKE_GPU_H
#define LW_TESTS_LIB_FAKE_GPU_H

/* Skips the test where the build has no plugin, and so none of the fakes of tests/fake_gpu. */
void needs_fakes(void);
/* `words` are in `text`, or not; a failure shows the end of the text. */
void has(const char *text, const char *words);
void has_not(const char *text, const char *words);

#endif
