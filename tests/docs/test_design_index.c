/* docs/design/README.md lists every page of docs/design, and no page that is not there. */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/files/file_fixture.h"

TEST(every_page_is_in_the_index)
{
    char *index = fixture_get("docs/design/README.md"), link[300];
    DIR *dir = opendir("docs/design");
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        const char *dot = strrchr(d->d_name, '.');
        if (!dot || strcmp(dot, ".md") != 0 || strcmp(d->d_name, "README.md") == 0)
            continue;
        snprintf(link, sizeof link, "(%s)", d->d_name);
        if (!strstr(index, link))
            fail_msg("docs/design/README.md does not list %s", d->d_name);
        n++;
    }
    assert_true(n > 50);
    closedir(dir);
    free(index);
}

TEST(the_index_names_pages_that_are_there)
{
    char *index = fixture_get("docs/design/README.md"), path[300];

    for (const char *p = index; (p = strstr(p, "](")) != NULL;) {
        p += 2;
        snprintf(path, sizeof path, "docs/design/%.*s", (int)strcspn(p, ")"), p);
        if (access(path, R_OK) != 0)
            fail_msg("docs/design/README.md lists %s, which is not there", path);
    }
    free(index);
}
