#pragma once

struct lw_device;
struct lw_framework;
struct lw_strategy;
struct traces_model_shape;

/* What the framework's facts do to the kernels of a model that a strategy splits on a device. */
void traces_model_take_framework(const struct lw_framework *f, const struct lw_strategy *s,
                                 const struct lw_device *d, struct traces_model_shape *shape);
