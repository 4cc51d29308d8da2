; The level of this processor, 4, 3 or 1, is asked for once: under a hypervisor that takes microseconds.
@moxie.known_level = internal global i64 0, align 8

define internal i64 @moxie.level() nounwind {
entry:
  %known = load atomic i64, ptr @moxie.known_level monotonic, align 8
  %is_known = icmp ne i64 %known, 0
  br i1 %is_known, label %done, label %ask
ask:
  %asked = call i64 @moxie.asked_level()
  store atomic i64 %asked, ptr @moxie.known_level monotonic, align 8
  ret i64 %asked
done:
  ret i64 %known
}

; What an instruction set needs of the operating system (XCR0) counts too.
define internal i64 @moxie.asked_level() nounwind {
entry:
  %basic = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 1, i32 0)
  %ecx1 = extractvalue {i32, i32, i32, i32} %basic, 2
  ; FMA (12), SSE4.1 (19), SSE4.2 (20), MOVBE (22), POPCNT (23), OSXSAVE (27), AVX (28), F16C (29)
  %first = and i32 %ecx1, 953683968
  %has_first = icmp eq i32 %first, 953683968
  br i1 %has_first, label %extended, label %one
extended:
  %leaves = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0, i32 0)
  %last = extractvalue {i32, i32, i32, i32} %leaves, 0
  %has_seven = icmp uge i32 %last, 7
  br i1 %has_seven, label %seven, label %one
seven:
  %structured = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 7, i32 0)
  %ebx7 = extractvalue {i32, i32, i32, i32} %structured, 1
  %state = call {i32, i32} asm sideeffect "xgetbv", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)
  %xcr0 = extractvalue {i32, i32} %state, 0
  ; BMI1 (3), AVX2 (5), BMI2 (8); registers of 128 (1) and 256 bits (2)
  %second = and i32 %ebx7, 296
  %has_second = icmp eq i32 %second, 296
  %ymm = and i32 %xcr0, 6
  %has_ymm = icmp eq i32 %ymm, 6
  %is_three = and i1 %has_second, %has_ymm
  ; AVX512F (16), DQ (17), BW (30), VL (31); masks (5) and registers of 512 bits (6, 7)
  %third = and i32 %ebx7, -1073545216
  %has_third = icmp eq i32 %third, -1073545216
  %zmm = and i32 %xcr0, 224
  %has_zmm = icmp eq i32 %zmm, 224
  %wide = and i1 %has_third, %has_zmm
  %is_four = and i1 %is_three, %wide
  %three = select i1 %is_three, i64 3, i64 1
  %level = select i1 %is_four, i64 4, i64 %three
  ret i64 %level
one:
  ret i64 1
}
