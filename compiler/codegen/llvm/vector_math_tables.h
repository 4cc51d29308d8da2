#pragma once
// Minimax polynomials of the vectorised functions, lowest power first; made by vector_math_fit.py.

namespace moxie::llvm_ir::table {

// (e^r - 1) / r on [-0.35004, 0.35004]; weighted error 1.1e-8
inline constexpr double kExpF32[] = {0x1.0000003071949p+0, 0x1.fffffeaa1d2bdp-2, 0x1.555475412e40bp-3,
                                     0x1.55565b9c7f099p-5, 0x1.1242dc2e844aep-7, 0x1.6c16aa86063bap-10};

// (e^r - 1 - r) / r^2 on [-0.35004, 0.35004]; weighted error 2.0e-17
inline constexpr double kExpF64[] = {
    0x1.0000000000005p-1,  0x1.555555555555dp-3,  0x1.5555555551cf4p-5,  0x1.111111110e399p-7,  0x1.6c16c18052c06p-10,
    0x1.a01a01b718545p-13, 0x1.a019a300eea7ap-16, 0x1.71dde6f2bd7d8p-19, 0x1.28a653520dbb0p-22, 0x1.af7be5d799dedp-26};

// (2^f - 1) / f on [-0.5, 0.5]; weighted error 9.3e-8
inline constexpr double kExp2F32[] = {0x1.62e431161e36dp-1, 0x1.ebf9b1f01fb8ap-3, 0x1.c6ae678518d91p-5,
                                      0x1.3ced733e039c4p-7, 0x1.5f76782452dacp-10};

// (2^f - 1) / f on [-0.5, 0.5]; weighted error 3.4e-18
inline constexpr double kExp2F64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a5p-3,  0x1.c6b08d704a0d7p-5,
                                      0x1.3b2ab6fb9ff7bp-7,  0x1.5d87fe78a0e8cp-10, 0x1.4309130f29323p-13,
                                      0x1.ffcbfc7c3028cp-17, 0x1.62bfc6dab4e41p-20, 0x1.b524ce12d021bp-24,
                                      0x1.e61c92a60f134p-28, 0x1.ea1812f4466cfp-32};

// (log(1+f) - f + f^2/2) / f^3 on [-0.29289, 0.41421]; weighted error 3.3e-8
inline constexpr double kLogF32[] = {0x1.5556b551afd10p-2,  -0x1.0004946288936p-2, 0x1.98e43a63c591dp-3,
                                     -0x1.5343a1e562a13p-3, 0x1.30adb74cf0214p-3,  -0x1.25e45458f97a7p-3,
                                     0x1.6d48c72283973p-4};

// (log((1+s)/(1-s)) / s - 2) / s^2, in s^2 on [0.0, 0.029437]; weighted error 2.5e-18
inline constexpr double kLogF64[] = {0x1.5555555555592p-1, 0x1.999999997ff4dp-2, 0x1.24924941de738p-2,
                                     0x1.c71c5216999cap-3, 0x1.74663c79b002fp-3, 0x1.39a1f404098dep-3,
                                     0x1.2f034d3187768p-3};

// ((log((1+s)/(1-s)) / s - 2) / s^2 - 2/3) / s^2, in s^2 on [0.0, 0.029437]; weighted error 3.9e-20
inline constexpr double kLogTailF64[] = {0x1.99999999999e0p-2, 0x1.249249247b89ap-2, 0x1.c71c71ffa6343p-3,
                                         0x1.745cf8631cd95p-3, 0x1.3b1c7c3f3ab56p-3, 0x1.0fb539bdb6eacp-3,
                                         0x1.0c6f68c9f8221p-3};

// log(1+e) / e on [0.0, 1.0]; weighted error 4.7e-9
inline constexpr double kLog1pF32[] = {
    0x1.ffffffd785b6fp-1,  -0x1.ffffbe85b6420p-2, 0x1.554c7f436c004p-2,  -0x1.ff0f8927bcb5ap-3, 0x1.92f69eb930ba8p-3,
    -0x1.397575b1ab4a6p-3, 0x1.b2539624972bep-4,  -0x1.d29d220edbd7cp-5, 0x1.453f5ae29e1fep-6,  -0x1.a933d577d57e2p-9};

// (sin(r) / r - 1) / r^2, in r^2 on [0.0, 2.4676]; weighted error 4.8e-9
inline constexpr double kSinF32[] = {-0x1.55554d00c3d89p-3, 0x1.110f026dab23ap-7, -0x1.9f781235746b7p-13,
                                     0x1.5e29c49e187ebp-19};

// (sin(r) / r - 1) / r^2, in r^2 on [0.0, 2.4676]; weighted error 2.2e-19
inline constexpr double kSinF64[] = {-0x1.5555555555555p-3,  0x1.11111111110cbp-7,   -0x1.a01a01a015187p-13,
                                     0x1.71de3a52c1757p-19,  -0x1.ae6454e4af7cap-26, 0x1.6123d149e0279p-33,
                                     -0x1.ae44a7366b83ep-41, 0x1.8851ab0587c57p-49};

// erf(x) / x, in x^2, |x| <= 1 on [0.0, 1.0]; weighted error 7.3e-18
inline constexpr double kErfF64[] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379bdp-2,  0x1.ce2f21a040d16p-4,
                                     -0x1.b82ce311fa936p-6,  0x1.565bccf92b22cp-8,   -0x1.c02db03dd563ap-11,
                                     0x1.f9a2baa8d85d9p-14,  -0x1.f4ca4d6d09df5p-17, 0x1.b97fd3c481bbcp-20,
                                     -0x1.5c0726720bd5cp-23, 0x1.d71b0bbe27715p-27,  -0x1.abae3f2b28ff6p-31};

// erf(x) / x, in x^2, |x| <= 1 on [0.0, 1.0]; weighted error 4.0e-8
inline constexpr double kErfF32[] = {0x1.20dd74449c4bep+0,  -0x1.812674d372f9fp-2, 0x1.ce0942ccc0d95p-4,
                                     -0x1.b5a35a8532d6bp-6, 0x1.4246cab0de66dp-8,  -0x1.273f916deb24fp-11};

// log2(erfc(x)); the error is that of erf on [1.0, 4.0]; weighted error 1.5e-8
inline constexpr double kErfTailF32[] = {-0x1.f93abe8379530p-9, -0x1.9cb40ea167f2ap+0, -0x1.e371f00a75129p-1,
                                         -0x1.05e18e23299d9p-3, 0x1.5d4f441bc44d9p-6,  -0x1.b313d41602e8cp-10};

// (x + 4) e^(x^2) erfc(x), in (x-4)/(x+4) on [-1.0, 1.0]; weighted error 2.8e-9
inline constexpr double kErfcxF32[] = {0x1.18932be658288p+0,   -0x1.f3fe30f7727e7p-1,  0x1.8be208fbe87f2p-1,
                                       -0x1.14eaea52ee6cfp-1,  0x1.52ca2e625403ep-2,   -0x1.645b76620c184p-3,
                                       0x1.38e575a19bec0p-4,   -0x1.b0906204d0d15p-6,  0x1.8f8691845e28bp-8,
                                       -0x1.d4ae7d92a870dp-13, -0x1.d3cc329369407p-12, 0x1.08186deeeba5fp-13};

// (x + 4) e^(x^2) erfc(x), in (x-4)/(x+4) on [-1.0, 1.0]; weighted error 3.7e-17
inline constexpr double kErfcxF64[] = {
    0x1.18932bf08e154p+0,   -0x1.f3fe31ecb49bep-1,  0x1.8be202d26c69fp-1,   -0x1.14eacb1ad0377p-1,
    0x1.52cac237126a7p-2,   -0x1.645fd8a4bb9dbp-3,  0x1.38dbd2c839849p-4,   -0x1.b00c052c056a7p-6,
    0x1.908f478565e43p-8,   -0x1.269b52f02b845p-12, -0x1.dd286586a8369p-12, 0x1.72cdb0aada250p-13,
    -0x1.e7b4942167a16p-19, -0x1.3c6f8b8e57dd3p-16, 0x1.3ad50b4bbc8b5p-18,  0x1.7e59a8a735143p-20,
    -0x1.c43e172b7394dp-21, -0x1.443f246af6583p-24, 0x1.04fb25d62b52fp-23,  0x1.4dffc6078a9dbp-31,
    -0x1.fdcd91bb8a83fp-27, 0x1.52356fe5dc20bp-32,  0x1.3531933c43c9ap-30};

// lgamma(2+z) / z on [-0.5, 0.5]; weighted error 4.0e-18
inline constexpr double kLgamma[] = {0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa7p-2,   -0x1.13e001a557553p-4,
                                     0x1.51322ac7d7c42p-6,   -0x1.e404fc21d9ad5p-8,  0x1.7add6eaebf4c5p-9,
                                     -0x1.38ac5bfc8c8adp-10, 0x1.0b36af0cf6791p-11,  -0x1.d3fd6abbacd8dp-13,
                                     0x1.a127ed7678165p-14,  -0x1.78d8f2a48e3b3p-15, 0x1.5804e987615e8p-16,
                                     -0x1.3d4d53a8bcfc2p-17, 0x1.2661e55726436p-18,  -0x1.08f8960a3bc88p-19,
                                     0x1.eb93190e0704bp-21,  -0x1.380e7999bf533p-21, 0x1.2fc438012303dp-22};

// x (lgamma(x) - (x-1/2) log x + x - log(2 pi)/2), in 1/x^2, x >= 8.5 on [0.0, 0.013841]; weighted error 1.8e-17
inline constexpr double kStirling[] = {0x1.5555555555554p-4,   -0x1.6c16c16be1fb1p-9, 0x1.a019fee190908p-11,
                                       -0x1.38102792727eap-11, 0x1.b77537899d919p-11, -0x1.b87245c4f7a6cp-10};

// x^2 (log x - 1/(2x) - digamma(x)), in 1/x^2, x >= 8 on [0.0, 0.015625]; weighted error 8.3e-18
inline constexpr double kDigamma[] = {0x1.5555555555555p-4,  -0x1.11111111099f1p-7, 0x1.041040c7a1030p-8,
                                      -0x1.1110b4cf86a87p-8, 0x1.f0389f9d6028fp-8,  -0x1.53285120eb003p-6,
                                      0x1.04d0c9424f29cp-4};

// x^3 (trigamma(x) - 1/x - 1/(2x^2)), in 1/x^2, x >= 8 on [0.0, 0.015625]; weighted error 3.3e-18
inline constexpr double kTrigamma[] = {0x1.5555555555555p-3,  -0x1.11111111101b5p-5, 0x1.8618617bd81eep-6,
                                       -0x1.1111069cc79fcp-5, 0x1.36484fcc259e5p-4,  -0x1.0276037ccc13ap-2,
                                       0x1.1c194aa2a93cap+0,  -0x1.2549a707eb975p+2};

}  // namespace moxie::llvm_ir::table
