/* Which names of devices mean the same, and which do not. */
#include "tests/lib/unit.h"

#include "shared/device/device_kind.h"

TEST(a_drivers_name_means_a_kind)
{
    static const char *const cases[][2] = {
        {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
        {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
        {"A100-SXM4-80GB", "A100-SXM4-80GB"},
        {"NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"},
        {"Tesla V100-SXM2-32GB", "V100-SXM2-32GB"},
        {"NVIDIA H200", "H200-SXM5-141GB"},
        {"AMD Instinct MI300X", "MI300X"},
        {"Intel(R) Xeon(R) Platinum 8480C", "cpu core"},
        {"AMD EPYC", "cpu core"},
        {"NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(lw_device_kind(cases[i][0]), cases[i][1]);
}

TEST(collectives_go_with_the_family_and_the_form)
{
    static const char kind[] = "H100-SXM5-80GB";

    assert_true(lw_device_has_links_of(kind, "NVIDIA H100 80GB HBM3"));
    assert_true(lw_device_has_links_of(kind, "H100-80GB (p5)"));
    assert_true(lw_device_has_links_of("A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"));
    assert_false(lw_device_has_links_of(kind, "NVIDIA H100 PCIe"));
    assert_false(lw_device_has_links_of(kind, "NVIDIA H100 NVL"));
    assert_false(lw_device_has_links_of(kind, "NVIDIA H200"));
}

TEST(times_go_with_the_same_kind_alone)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", true},
        {"NVIDIA H100 PCIe", "H100-SXM5-80GB", false},
        {"NVIDIA H100 NVL", "H100-SXM5-80GB", false},
        {"NVIDIA H200", "NVIDIA H100 80GB HBM3", false},
        {"A100-SXM4-40GB", "A100-SXM4-80GB", false},
        {"Tesla V100-SXM2-32GB", "V100-SXM2-16GB", false}, /* half of the memory */
        {"Tesla V100-DGXS-32GB", "V100-SXM2-16GB", false},
        {"NVIDIA B200", "GB200", false},
        {"H100", "H100-SXM5-80GB", true}, /* a family alone says no more */
        {"H100", "H200-SXM5-141GB", false},
        {"A10", "A100-SXM4-40GB", false},
        {"GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2080 Ti", true},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", true},
        {"RTX PRO 6000", "NVIDIA GeForce RTX 2080 Ti", false},
        {"cpu core", "GB200", false},
        {"cpu core", "AMD EPYC 7B13 64-Core Processor", true},
        {"unknown", "GB200", true},
        {"", "GB200", true},
        {"as recorded", "GB200", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lw_device_same_kind(cases[i].a, cases[i].b), cases[i].same);
        assert_int_equal(lw_device_same_kind(cases[i].b, cases[i].a), cases[i].same);
    }
}
