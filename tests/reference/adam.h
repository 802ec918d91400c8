// adam.h: made by make_adam.py with PyTorch 2.15.0.
enum { ADAM_N = 6, ADAM_STEPS = 4 };
static const float adam_start[ADAM_N] = {1.0f, -2.0f, 0.5f, 0.0f, 3.0f, -0.001f};
static const float adam_grads[ADAM_STEPS][ADAM_N] = {
    {0.5f, -1.0f, 0.0f, 0.0001f, 2.0f, 1e-08f},
    {0.25f, 1.0f, 0.0f, -0.0001f, 2.0f, 1e-08f},
    {-0.5f, -3.0f, 0.125f, 0.0001f, 0.0f, 0.0f},
    {1.0f, 0.5f, -0.25f, 5.0f, -8.0f, 1e-08f},
};
static const float adam_expected[ADAM_N] = {0.743755413f,  -1.8124697f, 0.464709242f,
                                            -0.186417135f, 2.75641351f, -0.175307595f};
static const float adam_expected_other[ADAM_N] = {0.778144904f,   -1.83172772f, 0.474479329f,
                                                  -0.0981199245f, 2.82080801f,  -0.00100316188f};
