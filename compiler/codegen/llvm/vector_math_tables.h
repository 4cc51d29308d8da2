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

// ((log((1+s)/(1-s)) / s - 2) / s^2 - 2/3) / s^2, in s^2 on [0.0, 0.029437]; weighted error 1.3e-13
inline constexpr double kLogTailF32[] = {0x1.999998bceec17p-2, 0x1.24933e3329474p-2, 0x1.c66d1a0dd323bp-3,
                                         0x1.8d89d0c4f91b4p-3};

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

// (atan(r) / r - 1) / r^2, in r^2, |r| <= tan(pi/8) on [0.0, 0.17157]; weighted error 2.0e-8
inline constexpr double kAtanF32[] = {-0x1.555457b00e3b9p-2, 0x1.9925e38ee4cf4p-3, -0x1.1c4291f117812p-3,
                                      0x1.4a277da51a667p-4};

// (atan(r) / r - 1) / r^2, in r^2, |r| <= tan(pi/8) on [0.0, 0.17157]; weighted error 3.4e-17
inline constexpr double kAtanF64[] = {
    -0x1.5555555555325p-2, 0x1.999999994af34p-3,  -0x1.24924905f3c9dp-3, 0x1.c71c65f3ee5a2p-4,  -0x1.745bc6585c8dap-4,
    0x1.3afc5fd7c2dfdp-4,  -0x1.10068f3abb3b3p-4, 0x1.d262bd9886447p-5,  -0x1.653e3b3ebadf0p-5, 0x1.5ca9d18aa39d5p-6};

// (asin(r) / r - 1) / r^2, in r^2, |r| <= 1/2 on [0.0, 0.25]; weighted error 5.0e-9
inline constexpr double kAsinF32[] = {0x1.5555ca6a7cfebp-3, 0x1.3301504afcf39p-4, 0x1.748c41ef63205p-5,
                                      0x1.8ba3649ee61a4p-6, 0x1.59da0a45b0d59p-5};

// (asin(r) / r - 1) / r^2, in r^2, |r| <= 1/2 on [0.0, 0.25]; weighted error 1.5e-17
inline constexpr double kAsinF64[] = {0x1.5555555555388p-3, 0x1.333333336f741p-4,  0x1.6db6db41dfc94p-5,
                                      0x1.f1c72c69cc4a9p-6, 0x1.6e89efc71301cp-6,  0x1.1c6c238ed088cp-6,
                                      0x1.c6f8c9f74460ep-7, 0x1.8ee2d8781f644p-7,  0x1.aac21b0bdb931p-8,
                                      0x1.40a8bdd2d62bbp-6, -0x1.0ae78ba04c4d5p-6, 0x1.05ca20b79b164p-5};

// erfinv(x) / x, in w/3.125 - 1, w = -log(1 - x^2) <= 6.25 on [-1.0, 1.0]; weighted error 2.1e-19
inline constexpr double kErfinvCentre[] = {
    0x1.a755e7c99ae86p+0,   0x1.8040caa12786bp-1,   -0x1.e2b19456a07d4p-5,  -0x1.7259eca3a0c3ep-6,
    0x1.23c5aee6b651bp-6,   -0x1.0f249df1f8a8cp-8,  -0x1.4d5dd2cf2d1edp-10, 0x1.4316b4e51dbafp-10,
    -0x1.153ca2d362f0fp-12, -0x1.ea44769c433d5p-14, 0x1.879c823d62cdfp-14,  -0x1.f83df8396cc9bp-17,
    -0x1.79bd09a4df686p-17, 0x1.de766f76c0be1p-18,  -0x1.6ec8c698b9445p-21, -0x1.1c1ec9efe8957p-20,
    0x1.20fc641b803f1p-21,  -0x1.8b2a2792b3f04p-27, -0x1.a082e015737a7p-24, 0x1.5b7b2b99de8d5p-25,
    0x1.acad769a9ce70p-29,  -0x1.42545b85061c3p-27, 0x1.64679d38f5ccfp-29,  0x1.25658015a63bcp-30,
    -0x1.674c803ad229bp-31, -0x1.a52a72e25df06p-35, 0x1.0dd9b5189d21bp-34};

// erfinv(x) / x, in w/3.125 - 1, w = -log(1 - x^2) <= 6.25 on [-1.0, 1.0]; weighted error 6.5e-9
inline constexpr double kErfinvCentreF32[] = {0x1.a755e7e552307p+0,   0x1.8040ca68cfb13p-1,  -0x1.e2b2870438fb0p-5,
                                              -0x1.72592b7ec28e4p-6,  0x1.23db31e31ecf8p-6,  -0x1.0f401230b2f7cp-8,
                                              -0x1.52f481613d0f7p-10, 0x1.44e12c03b8c09p-10, -0x1.d6300d93094efp-13,
                                              -0x1.13254f0f05319p-13, 0x1.e93521ba90b4bp-15};

// erfinv(x) / x, in (sqrt(w) - 3.25)/0.75, 6.25 <= w <= 16 on [-1.0, 1.0]; weighted error 3.2e-18
inline constexpr double kErfinvMiddle[] = {0x1.8abcc380d5a48p+1,   0x1.8204fa4162bffp-1,   0x1.8bfc9e26da862p-9,
                                           -0x1.9eda88e4f1d23p-10, 0x1.9d4ce3862e5c2p-11,  -0x1.a418d38d9b7dap-12,
                                           0x1.63d0371236de5p-13,  -0x1.8d8d2c903f855p-15, 0x1.42e8de672aceap-19,
                                           0x1.5816a0810c419p-18,  -0x1.65a98e9d53451p-19, 0x1.1aa4812f80d76p-21,
                                           0x1.8ef4c9ec2b17ap-24,  -0x1.96b15bc324d71p-24, 0x1.c5a217e4d7b33p-26,
                                           -0x1.94b25c8b51c80p-32, -0x1.52ddabee0680cp-29, 0x1.0fc0cc8e61f97p-30,
                                           -0x1.fc1149ed45452p-34, -0x1.1c28d89649fa6p-34, 0x1.a403cfbf5694cp-36};

// erfinv(x) / x, in (sqrt(w) - 3.25)/0.75, 6.25 <= w <= 16 on [-1.0, 1.0]; weighted error 4.4e-8
inline constexpr double kErfinvMiddleF32[] = {0x1.8abcc3a4ff877p+1,   0x1.8204eeeff7db3p-1,  0x1.8be9f1bb4eb2fp-9,
                                              -0x1.9dd6c8fa802f2p-10, 0x1.9e923c01c6f6fp-11, -0x1.b0e01aa185b3bp-12,
                                              0x1.5fa7e6b87c64dp-13,  -0x1.1653577ba5c46p-15};

// erfinv(x) / x, in (sqrt(w) - 5.05)/1.05, 16 <= w < 37.2 on [-1.0, 1.0]; weighted error 2.8e-19
inline constexpr double kErfinvTail[] = {0x1.39a07f9e2524cp+2,   0x1.0f908a75bb763p+0,   -0x1.88bb08f678d8dp-13,
                                         -0x1.e64cf2d256c78p-13, 0x1.6b3293f73d1e4p-14,  -0x1.8971a2133e4eap-16,
                                         0x1.7929b462655f1p-18,  -0x1.569e55a79a538p-20, 0x1.3fd9214c8dcf9p-22,
                                         -0x1.6e26b0c59aa0fp-24, 0x1.31626328271d5p-25,  -0x1.47d74f0964edep-26,
                                         0x1.65bb11f61a3bap-27,  -0x1.5e000833308bep-28, 0x1.208001a968962p-29,
                                         -0x1.77de266149520p-31, 0x1.446f9ae1418e5p-33,  0x1.a7cb61c81233dp-38,
                                         -0x1.cfe194a033453p-36, 0x1.be1445f2941b5p-37,  -0x1.400bef5be7598p-39};

// sqrt(x) e^-x I0(x), in 16/x - 1, x >= 8 on [-1.0, 1.0]; weighted error 1.0e-17
inline constexpr double kBessel0Tail[] = {
    0x1.9bd428ad249a5p-2,   0x1.b87969bb93aebp-9,  0x1.1daa72b5ce860p-13,  0x1.75e5ee7528e7cp-17,
    0x1.8e513c5409d8dp-20,  0x1.3f499b6ad2d91p-22, 0x1.7d0ce2842e28bp-24,  0x1.51d36106ea82dp-25,
    0x1.7287739df3178p-26,  0x1.030923c22d5bap-27, -0x1.d72e3e60a01eep-28, -0x1.ca6a49600755bp-27,
    -0x1.589e54ac917f5p-28, 0x1.fa63f03669373p-28, 0x1.bf8fc3a5a7367p-28,  -0x1.b4dffdd4948cdp-29,
    -0x1.363c039f7ca17p-28, 0x1.39a5bc314ca0ap-30, 0x1.274477aa9695ap-29,  -0x1.46484e618bb73p-32,
    -0x1.60c3d1de9c35cp-31, 0x1.5b682ae5b80cdp-35, 0x1.89a5217355403p-34};

// sqrt(x) e^-x I1(x), in 16/x - 1, x >= 8 on [-1.0, 1.0]; weighted error 1.0e-17
inline constexpr double kBessel1Tail[] = {
    0x1.8ebe783a84030p-2,   -0x1.3f796198ee60ap-7,  -0x1.cbc54df1d4ac8p-13, -0x1.f89c23094e0e4p-17,
    -0x1.ec8e1259da92dp-20, -0x1.7613744b12a8dp-22, -0x1.ad8b1498ea509p-24, -0x1.727e8436ed5c7p-25,
    -0x1.91e63a5e9063dp-26, -0x1.2116218c2ea83p-27, 0x1.d67647e35d0eap-28,  0x1.e01ecd5296f07p-27,
    0x1.7f07b2d9ffb05p-28,  -0x1.00decf01bc754p-27, -0x1.dd27e16a39447p-28, 0x1.ae0d370269e08p-29,
    0x1.46f60b44a1676p-28,  -0x1.2cb591c4b3f58p-30, -0x1.35e1e4f852e87p-29, 0x1.32f95d9218bb8p-32,
    0x1.71cdbf5014dd6p-31,  -0x1.432c802f3aee5p-35, -0x1.9cc206bbd7c53p-34};

}  // namespace moxie::llvm_ir::table
