; 1/pi: bit k after the binary point is bit 63 - k%64 of word k/64.
@moxie.inverse_pi = private unnamed_addr constant [19 x i64] [
  i64 5871781006564002452, i64 -138578146393166112, i64 7904181063698728992, i64 -60603062567443792,
  i64 -2624975034553800336, i64 226472410124699918, i64 9155525084211106719, i64 8377006445469475394,
  i64 8416726409370648352, i64 -7149205899709932294, i64 5639122210317440029, i64 -8071492869556089849,
  i64 -605865242265307505, i64 -5288563623321041701, i64 -6367210593183599338, i64 -5002411339680646979,
  i64 -7024598388609300107, i64 3890458997777936004, i64 3098925296816862677
], align 8

declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i128 @llvm.ctlz.i128(i128, i1)
declare i128 @llvm.abs.i128(i128, i1)

; y in [-pi/2, pi/2] with sin y = sin x or, for `cosine`, sin y = cos x; for |x| >= 2^20, NaN for infinities. After Payne
; and Hanek: |x| = m 2^e times those 192 bits of 1/pi that are not multiples of two, in fixed point, modulo two.
define internal double @moxie.large_angle(double %x, i1 %cosine) noinline nounwind {
  %bits = bitcast double %x to i64
  %field = lshr i64 %bits, 52
  %exponent = and i64 %field, 2047
  %mantissa = and i64 %bits, 4503599627370495
  %m = or i64 %mantissa, 4503599627370496
  %e = sub i64 %exponent, 1075
  ; bits of 1/pi before `skipped` give even multiples of pi
  %before = sub i64 %e, 1
  %negative = icmp slt i64 %before, 0
  %skipped = select i1 %negative, i64 0, i64 %before
  %word = lshr i64 %skipped, 6
  %at0 = getelementptr i64, ptr @moxie.inverse_pi, i64 %word
  %at1 = getelementptr i64, ptr %at0, i64 1
  %at2 = getelementptr i64, ptr %at0, i64 2
  %at3 = getelementptr i64, ptr %at0, i64 3
  %w0 = load i64, ptr %at0
  %w1 = load i64, ptr %at1
  %w2 = load i64, ptr %at2
  %w3 = load i64, ptr %at3
  %part = and i64 %skipped, 63
  %b0 = call i64 @llvm.fshl.i64(i64 %w0, i64 %w1, i64 %part)
  %b1 = call i64 @llvm.fshl.i64(i64 %w1, i64 %w2, i64 %part)
  %b2 = call i64 @llvm.fshl.i64(i64 %w2, i64 %w3, i64 %part)
  ; x / pi = product * 2^(e - skipped - 192), modulo two
  %wide0 = zext i64 %b0 to i256
  %wide1 = zext i64 %b1 to i256
  %wide2 = zext i64 %b2 to i256
  %high = shl i256 %wide0, 128
  %middle = shl i256 %wide1, 64
  %upper = or i256 %high, %middle
  %window = or i256 %upper, %wide2
  %factor = zext i64 %m to i256
  %product = mul i256 %window, %factor
  ; in units of 2^-127, so that 128 bits hold it modulo two
  %rest = sub i64 %e, %skipped
  %count = sub i64 65, %rest
  %wide_count = zext i64 %count to i256
  %shifted = lshr i256 %product, %wide_count
  %turns = trunc i256 %shifted to i128
  %quarter = select i1 %cosine, i128 85070591730234615865843651857942052864, i128 0
  %sum = add i128 %turns, %quarter
  ; beyond pi/2 on either side: sin y = sin(pi - y)
  %moved = add i128 %sum, 85070591730234615865843651857942052864
  %beyond = icmp slt i128 %moved, 0
  %mirrored = sub i128 -170141183460469231731687303715884105728, %sum
  %fixed = select i1 %beyond, i128 %mirrored, i128 %sum
  ; to double: the leading 64 bits, and their exponent
  %size = call i128 @llvm.abs.i128(i128 %fixed, i1 false)
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %normal = shl i128 %size, %zeros
  %leading = lshr i128 %normal, 64
  %digits = trunc i128 %leading to i64
  %number = uitofp i64 %digits to double
  %few = trunc i128 %zeros to i64
  %power = sub i64 960, %few
  %power_bits = shl i64 %power, 52
  %scale = bitcast i64 %power_bits to double
  %fraction = fmul double %number, %scale
  %angle = fmul double %fraction, 0x400921FB54442D18
  ; the sign of the fixed-point number, and, for the sine, that of x
  %below = icmp slt i128 %fixed, 0
  %odd = xor i1 %cosine, true
  %minus = icmp slt i64 %bits, 0
  %mirror = and i1 %odd, %minus
  %flip = xor i1 %below, %mirror
  %opposite = fneg double %angle
  %signed = select i1 %flip, double %opposite, double %angle
  %nothing = fsub double %x, %x
  %y = fadd double %signed, %nothing
  ret double %y
}
